// The functions of libibverbs, loaded at run time: a host without it still starts. Internal to the
// module.
//
// The table is made at the first use and lives as long as the process. The functions of the data
// path are calls into the device's driver. They are in the table, too, so that tests can put a
// scripted device in its place.
#pragma once

#include <infiniband/verbs.h>

#include "verbs/base/base.h"

// A macro of libibverbs that would replace the table's name.
#undef ibv_query_port

namespace weft::ib {

struct Library {
  decltype(&ibv_get_device_list) get_device_list;
  decltype(&ibv_free_device_list) free_device_list;
  decltype(&ibv_get_device_name) get_device_name;
  decltype(&ibv_open_device) open_device;
  decltype(&ibv_close_device) close_device;
  decltype(&ibv_query_device) query_device;
  int (*query_device_ex)(ibv_context*, ibv_device_attr_ex*);
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  decltype(&_ibv_query_gid_table) query_gid_table;
  decltype(&ibv_alloc_pd) alloc_pd;
  decltype(&ibv_dealloc_pd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, std::size_t bytes, int access);
  decltype(&ibv_dereg_mr) dereg_mr;
  decltype(&ibv_reg_dmabuf_mr) reg_dmabuf_mr;  // nullptr: this libibverbs has none
  // The same.
  ibv_mr* (*reg_mr_iova)(ibv_pd*, void* address, std::size_t bytes, std::uint64_t iova, int access);
  decltype(&ibv_create_comp_channel) create_comp_channel;
  decltype(&ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&ibv_create_cq) create_cq;
  decltype(&ibv_destroy_cq) destroy_cq;
  decltype(&ibv_get_cq_event) get_cq_event;
  decltype(&ibv_ack_cq_events) ack_cq_events;
  decltype(&ibv_create_srq) create_srq;
  decltype(&ibv_destroy_srq) destroy_srq;
  decltype(&ibv_create_qp) create_qp;
  decltype(&ibv_modify_qp) modify_qp;
  decltype(&ibv_destroy_qp) destroy_qp;
  decltype(&ibv_create_ah) create_ah;
  decltype(&ibv_destroy_ah) destroy_ah;
  decltype(&ibv_get_async_event) get_async_event;
  decltype(&ibv_ack_async_event) ack_async_event;
  decltype(&ibv_wc_status_str) wc_status_str;
  decltype(&ibv_event_type_str) event_type_str;
  // The data path.
  int (*poll_cq)(ibv_cq*, int most, ibv_wc*);
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad);
};

// The table, or why libibverbs cannot be used on this host.
[[nodiscard]] Result<const Library*> library();

}  // namespace weft::ib
