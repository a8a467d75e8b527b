// store: how the ranks of a job find each other.
#include <weft/store.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Status;
using weft::Store;

}  // namespace

weft_code weft_store_open(weft_config* config, weft_store** store) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(store, "store"));
    WEFT_ASSIGN(const auto object, object_of(config, "config"));
    weft::Config told = object->copy();  // joining may take long; the lock is not held meanwhile
    WEFT_ASSIGN(std::shared_ptr<Store> opened, weft::open_store(told));
    {
      const auto lock = lock_objects();
      object->config = std::move(told);
    }
    give(std::move(opened), store);
    return {};
  });
}

weft_code weft_store_make_local(int32_t n, weft_store** stores) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_not_null(stores, "stores"));
    WEFT_RETURN_IF_ERROR(weft::check_graph_size(n, 0));
    std::fill_n(stores, n, nullptr);
    WEFT_ASSIGN(std::vector<std::shared_ptr<Store>> made, weft::make_local_stores(n));
    for (std::size_t rank = 0; rank < made.size(); ++rank)
      give(std::move(made[rank]), &stores[rank]);
    return {};
  });
}

weft_code weft_store_free(weft_store* store) {
  return call(__func__, [&] { return release(store, "store"); });
}

weft_code weft_store_rank(const weft_store* store, int32_t* rank) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(store, "store"));
    WEFT_RETURN_IF_ERROR(check_not_null(rank, "rank"));
    *rank = from->rank();
    return {};
  });
}

weft_code weft_store_size(const weft_store* store, int32_t* size) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto from, object_of(store, "store"));
    WEFT_RETURN_IF_ERROR(check_not_null(size, "size"));
    *size = from->size();
    return {};
  });
}
