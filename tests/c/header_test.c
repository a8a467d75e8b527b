// header_test: what the binary interface fixes. Programs that were compiled with this version must
// run with every later one, so no number, member or offset here may ever change; structs may only
// grow.
#include <assert.h>
#include <stddef.h>
#include <weft/weft.h>  // in C this is weft/c.h

// Sizes of version 0.2, on machines with addresses of 64 bits.
#define LAST_MEMBER_ENDS(type, member, end) \
  static_assert(offsetof(type, member) + sizeof(((type*)0)->member) == (end), #type)

LAST_MEMBER_ENDS(weft_peer, weight, 16);
LAST_MEMBER_ENDS(weft_edge, weight, 16);
LAST_MEMBER_ENDS(weft_weights, destination_count, 56);
LAST_MEMBER_ENDS(weft_request, weights, 144);
LAST_MEMBER_ENDS(weft_request, needs_all, 192);
LAST_MEMBER_ENDS(weft_placement, rails, 32);
LAST_MEMBER_ENDS(weft_usage, allocations, 64);
LAST_MEMBER_ENDS(weft_graph_properties, max_out_degree, 40);
LAST_MEMBER_ENDS(weft_mixing, rounds, 32);
LAST_MEMBER_ENDS(weft_local_view, self_weight, 64);
LAST_MEMBER_ENDS(weft_heap_usage, huge_bytes, 24);
LAST_MEMBER_ENDS(weft_window_options, reserved, 16);
LAST_MEMBER_ENDS(weft_put_options, signal, 48);
LAST_MEMBER_ENDS(weft_get_options, source_count, 32);
LAST_MEMBER_ENDS(weft_update_options, clone, 56);
LAST_MEMBER_ENDS(weft_page, remote_offset, 16);
LAST_MEMBER_ENDS(weft_partial_allreduce_options, section, 40);
LAST_MEMBER_ENDS(weft_partial_allreduce_usage, successions, 40);
LAST_MEMBER_ENDS(weft_gradient_exchange_options, has_proportion, 48);
LAST_MEMBER_ENDS(weft_gradient_exchange_options, stream, 72);
LAST_MEMBER_ENDS(weft_ended_iteration, pulled_from, 24);
LAST_MEMBER_ENDS(weft_gradient_exchange_counts, bytes, 40);
LAST_MEMBER_ENDS(weft_strategy_options, has_proportion, 100);
LAST_MEMBER_ENDS(weft_strategy_options, topology, 120);
LAST_MEMBER_ENDS(weft_strategy_counts, dropped, 32);
static_assert(offsetof(weft_request, x) == 16 && offsetof(weft_request, op) == 48, "request");
static_assert(offsetof(weft_request, counts) == 88 && offsetof(weft_request, group) == 120,
              "request");
static_assert(offsetof(weft_weights, sources) == 24, "weights");

static_assert(WEFT_OK == 0 && WEFT_INVALID_ARGUMENT == 1 && WEFT_MISMATCH == 2, "codes");
static_assert(WEFT_TIMED_OUT == 3 && WEFT_PEER_DIED == 4 && WEFT_PEER_LEFT == 5, "codes");
static_assert(WEFT_NO_PERMISSION == 6 && WEFT_EXHAUSTED == 7 && WEFT_UNAVAILABLE == 8, "codes");
static_assert(WEFT_CLOSED == 9 && WEFT_SYSTEM == 10 && WEFT_CORRUPTED == 11, "codes");
static_assert(sizeof(weft_code) == 4, "codes");

int main(void) {
  return weft_version_number() >= 10000 * WEFT_VERSION_MAJOR + 100 * WEFT_VERSION_MINOR ? 0 : 1;
}
