// job: who the ranks of a context are, and where. Their numbers in the job (RankMap) and what the store
// tells of them (StoreEvents), their machines (MachineTable), the interfaces that this rank opens
// (open_interfaces) and those that it uses (RailSelection), where it works on its machine (Workplace),
// and how many lanes it could have.
//
//   store -> StoreEvents -> RankMap -> MachineTable -> RailSelection
//   configuration, hardware -> open_interfaces() -> OpenedInterfaces
//
// Nothing here knows of operations.
#pragma once

#include "engine/job/interfaces.h"
#include "engine/job/lane_count.h"
#include "engine/job/lane_options.h"
#include "engine/job/machine_table.h"
#include "engine/job/machines.h"
#include "engine/job/rail_selection.h"
#include "engine/job/rank_map.h"
#include "engine/job/store_events.h"
#include "engine/job/workplace.h"
