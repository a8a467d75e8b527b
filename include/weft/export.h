// WEFT_PUBLIC marks the namespace blocks whose names a shared library of Weft shows. Every other name
// of Weft is hidden (CMAKE_CXX_VISIBILITY_PRESET). cmake/exports.txt lists what is shown.
#pragma once

#define WEFT_PUBLIC [[gnu::visibility("default")]]
