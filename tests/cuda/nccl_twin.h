// What a test tells the twin of libnccl.so.2.
#pragma once

extern "C" {
// The next calls of a function fail.
void nccl_twin_fail(const char* function, int count);
// The next operations are queued after some questions whether they are.
void nccl_twin_launch_slowly(int count);
}
