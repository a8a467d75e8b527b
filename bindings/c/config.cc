// config: settings by the names of their variables.
#include <weft/config.h>

#include <memory>

#include "bindings/c/objects.h"

namespace {

using namespace weft::c;
using weft::Status;

}  // namespace

weft_code weft_config_new(weft_config** config) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(config, "config"));
    give(std::make_shared<ConfigObject>(weft::Config{}), config);
    return {};
  });
}

weft_code weft_config_from_environment(weft_config** config) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(config, "config"));
    WEFT_ASSIGN(weft::Config read, weft::Config::from_environment());
    give(std::make_shared<ConfigObject>(std::move(read)), config);
    return {};
  });
}

weft_code weft_config_free(weft_config* config) {
  return call(__func__, [&] { return release(config, "config"); });
}

weft_code weft_config_set(weft_config* config, const char* name, const char* value) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(config, "config"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    WEFT_RETURN_IF_ERROR(check_not_null(value, "value"));
    const auto lock = lock_objects();
    return object->config.set(name, value);
  });
}

weft_code weft_config_get(const weft_config* config, const char* name, char** value) {
  return call(__func__, [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_result(value, "value"));
    WEFT_ASSIGN(const auto object, object_of(config, "config"));
    WEFT_RETURN_IF_ERROR(check_not_null(name, "name"));
    WEFT_ASSIGN(const std::string found, object->copy().get(name));
    return give_string(found, value);
  });
}

weft_code weft_config_check(const weft_config* config) {
  return call(__func__, [&]() -> Status {
    WEFT_ASSIGN(const auto object, object_of(config, "config"));
    return object->copy().check();
  });
}
