// stop: Ctrl-C in commands that work long. The command keeps what it has so far and ends soon; a second Ctrl-C ends
// it at once.
//
//   stop_by_signals();                      // before the work
//   while (… && !is_told_to_stop()) …       // what there is so far is written
//   return stopped_status();                // 130 after Ctrl-C
#pragma once

namespace weft {

// From now on the first SIGINT and the first SIGTERM do not end this process.
void stop_by_signals();
[[nodiscard]] bool is_told_to_stop();
// 128 + the signal, as a shell tells it; 0: nobody has told this process to stop.
[[nodiscard]] int stopped_status();

}  // namespace weft
