// bindings: what each source adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace weft::python {

void bind_types(nanobind::module_& module);              // enums
void bind_config(nanobind::module_& module);             // Config
void bind_arrays(nanobind::module_& module);             // ArrayView
void bind_store(nanobind::module_& module);              // Store
void bind_memory(nanobind::module_& module);             // Memory
void bind_graph(nanobind::module_& module);              // Graph and what makes one
void bind_schedule(nanobind::module_& module);           // Schedule
void bind_request(nanobind::module_& module);            // Request
void bind_handle(nanobind::module_& module);             // Handle
void bind_prepared(nanobind::module_& module);           // Prepared
void bind_window(nanobind::module_& module);             // Window
void bind_named(nanobind::module_& module);              // Named
void bind_algorithms(nanobind::module_& module);         // PushSum, DPsgd, AdPsgd, BoundedStaleness
void bind_partial_allreduce(nanobind::module_& module);  // PartialAllreduce
void bind_gradient_exchange(nanobind::module_& module);  // GradientExchange
void bind_strategies(nanobind::module_& module);         // Strategy
void bind_context(nanobind::module_& module);            // Context

}  // namespace weft::python
