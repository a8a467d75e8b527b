// Loading libibverbs.
#include "verbs/ib/library.h"

namespace weft::ib {
namespace {

// Newer drivers fill a longer structure than the exported function knows; this asks them directly.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  verbs_context* extended = verbs_get_ctx_op(context, query_port);
  if (extended == nullptr) return EOPNOTSUPP;
  return extended->query_port(context, port, attributes, sizeof *attributes);
}

int query_device_ex(ibv_context* context, ibv_device_attr_ex* attributes) {
  verbs_context* extended = verbs_get_ctx_op(context, query_device_ex);
  if (extended == nullptr) return EOPNOTSUPP;
  return extended->query_device_ex(context, nullptr, attributes, sizeof *attributes);
}

Result<Library> load() {
  Library table{};
  DynamicLibrary file("libibverbs.so.1");
  WEFT_RETURN_IF_ERROR(file.find("ibv_get_device_list", table.get_device_list)
                           .find("ibv_free_device_list", table.free_device_list)
                           .find("ibv_get_device_name", table.get_device_name)
                           .find("ibv_open_device", table.open_device)
                           .find("ibv_close_device", table.close_device)
                           .find("ibv_query_device", table.query_device)
                           .find("_ibv_query_gid_table", table.query_gid_table)
                           .find("ibv_alloc_pd", table.alloc_pd)
                           .find("ibv_dealloc_pd", table.dealloc_pd)
                           .find("ibv_reg_mr", table.reg_mr)
                           .find("ibv_dereg_mr", table.dereg_mr)
                           .find_newer("ibv_reg_dmabuf_mr", table.reg_dmabuf_mr)
                           .find_newer("ibv_reg_mr_iova", table.reg_mr_iova)
                           .find("ibv_create_comp_channel", table.create_comp_channel)
                           .find("ibv_destroy_comp_channel", table.destroy_comp_channel)
                           .find("ibv_create_cq", table.create_cq)
                           .find("ibv_destroy_cq", table.destroy_cq)
                           .find("ibv_get_cq_event", table.get_cq_event)
                           .find("ibv_ack_cq_events", table.ack_cq_events)
                           .find("ibv_create_srq", table.create_srq)
                           .find("ibv_destroy_srq", table.destroy_srq)
                           .find("ibv_create_qp", table.create_qp)
                           .find("ibv_modify_qp", table.modify_qp)
                           .find("ibv_destroy_qp", table.destroy_qp)
                           .find("ibv_create_ah", table.create_ah)
                           .find("ibv_destroy_ah", table.destroy_ah)
                           .find("ibv_get_async_event", table.get_async_event)
                           .find("ibv_ack_async_event", table.ack_async_event)
                           .find("ibv_wc_status_str", table.wc_status_str)
                           .find("ibv_event_type_str", table.event_type_str)
                           .status("RDMA verbs cannot be used here"));
  table.query_port = query_port;
  table.query_device_ex = query_device_ex;
  table.poll_cq = ibv_poll_cq;
  table.req_notify_cq = ibv_req_notify_cq;
  table.post_send = ibv_post_send;
  table.post_recv = ibv_post_recv;
  table.post_srq_recv = ibv_post_srq_recv;
  return table;
}

}  // namespace

Result<const Library*> library() {
  // Never destroyed: a static context may be the last that uses it.
  static const auto& once = *new const Result<Library>(load());
  if (!once.ok()) return once.status();
  return &once.value();
}

}  // namespace weft::ib

namespace weft {

Status ib_library() {
  return ib::library().status();
}

}  // namespace weft
