// What a test tells the fake of libnccl.so.2.
#pragma once

extern "C" {
// The next calls of a function fail.
void nccl_fake_fail(const char* function, int count);
// The next operations are queued after some questions whether they are.
void nccl_fake_launch_slowly(int count);
}
