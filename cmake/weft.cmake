# How every module, test and program of Weft is declared, so that one warning level, one include root and
# one naming rule hold for all of them.

# What a module's users need as well.
add_library(weft_options INTERFACE)
target_compile_features(weft_options INTERFACE cxx_std_20)
target_include_directories(weft_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)

# Libraries of others that Weft contains: a user neither needs them nor meets them. Of fmt and Highway there are only shared
# libraries in most systems, so verbs/base/fmt.cc and engine/kernels/cpu.cc make the compiled part from their headers.
add_library(weft_fmt_headers INTERFACE)
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(weft_fmt_headers SYSTEM INTERFACE ${fmt_headers})

# What concerns our own sources only: linked as PRIVATE, so that it does not reach the targets of a project that uses Weft.
if(WEFT_UNITY)
  # Names that are private to a source are known to those that are compiled with it.
  set(shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
else()
  set(shadow -Wshadow)
endif()
if(WEFT_WERROR)
  set(error -Werror)
endif()
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic ${shadow} -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual ${error}
  -fno-omit-frame-pointer
  # Else a constant of an inline function would be one for all copies of Weft and of its libraries in a process.
  $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>
  # With clang, -Wconversion contains it; and macros of rdma-core are statement expressions.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion> $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression>)

# The modules that every message passes through (MESSAGE_PATH) are also compiled to a form from which programs can
# inline them into each other: a call of a few bytes costs a tenth less. Objects hold both forms, so that tests link fast.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WEFT_SANITIZE)
  set(weft_both_forms -flto=auto -ffat-lto-objects)
  set(weft_inlined -flto=auto)
  set(weft_as_compiled -fno-lto)
endif()

# Headers that many sources need are read once for all that are compiled alike: a third less to do. A source still
# includes what it uses.
set(weft_common_headers
  <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional> <map> <memory> <mutex> <optional> <span> <string>
  <string_view> <unordered_map> <utility> <vector> <fmt/format.h>)
function(weft_read_once name)
  cmake_parse_arguments(ARG "" "" "OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${name}.cc CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE weft_flags weft_options weft_fmt_headers)
  target_precompile_headers(${name} PRIVATE ${weft_common_headers})
endfunction()
if(NOT WEFT_SANITIZE)
  weft_read_once(weft_module_headers)
  weft_read_once(weft_message_path_headers OPTIONS ${weft_both_forms})
endif()

# Under a sanitizer most of a compilation is the optimization of what the sanitizer adds, so these are not optimized: a test
# runs through them quickly all the same. Precompiled headers are optimized, and unity builds need none.
set(weft_not_optimized_when_sanitized
  verbs_device topology_canvas topology_cluster topology_hardware topology_svg topology_text topology_toml engine_bootstrap
  engine_config engine_membership engine_trace tools_limits)

# These call NVIDIA's libraries by declarations of our own, which are not NVIDIA's to the letter. Clang would report each call.
set(weft_calls_by_own_declarations verbs_cuda topology_hardware engine_nccl)

# weft_program(NAME [INLINED] [OPTIMIZED] SOURCES ... [LINK ...]): an executable in bin/; INLINED, with the message path
# inlined, for those that are measured: linking them takes a minute. OPTIMIZED: under a sanitizer, too.
function(weft_program name)
  cmake_parse_arguments(ARG "INLINED;OPTIMIZED" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(WEFT_SANITIZE AND NOT ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  target_link_libraries(${name} PRIVATE weft_flags weft_options ${ARG_LINK})
  if(ARG_INLINED)
    target_link_options(${name} PRIVATE ${weft_inlined})
  else()
    target_link_options(${name} PRIVATE ${weft_as_compiled})
  endif()
endfunction()

# weft_module(LAYER NAME [MESSAGE_PATH] SOURCES ... [LINK ...]): the static library weft_LAYER_NAME, one folder, one
# public header.
function(weft_module layer name)
  cmake_parse_arguments(ARG "MESSAGE_PATH" "" "SOURCES;LINK" ${ARGN})
  add_library(weft_${layer}_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(weft_${layer}_${name} PRIVATE weft_flags PUBLIC weft_options ${ARG_LINK})
  if(WEFT_SANITIZE)
    if("${layer}_${name}" IN_LIST weft_not_optimized_when_sanitized)
      target_compile_options(weft_${layer}_${name} PRIVATE -O0)
    endif()
    if("${layer}_${name}" IN_LIST weft_calls_by_own_declarations)
      target_compile_options(weft_${layer}_${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
    endif()
  elseif(ARG_MESSAGE_PATH)
    target_compile_options(weft_${layer}_${name} PRIVATE ${weft_both_forms})
    target_precompile_headers(weft_${layer}_${name} REUSE_FROM weft_message_path_headers)
  else()
    target_precompile_headers(weft_${layer}_${name} REUSE_FROM weft_module_headers)
  endif()
endfunction()

# Compiling is most of what a run of the tests takes, so their own code is not optimized (the modules that they call are),
# and GoogleTest's header is read once. UndefinedBehaviorSanitizer, which takes as long again, looks only at the modules.
set(weft_tests_unchecked)
if(WEFT_SANITIZE MATCHES undefined)
  set(weft_tests_unchecked -fno-sanitize=undefined)
endif()
set(weft_tests_own -O0 ${weft_tests_unchecked})
if(WEFT_TESTS)
  file(CONFIGURE OUTPUT gtest_header.cc CONTENT "")
  add_library(weft_gtest_header OBJECT ${CMAKE_CURRENT_BINARY_DIR}/gtest_header.cc)
  set_target_properties(weft_gtest_header PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(weft_gtest_header PRIVATE -fPIE ${weft_tests_own})  # as the programs that use it
  target_link_libraries(weft_gtest_header PRIVATE GTest::gtest weft_flags weft_options)
  target_precompile_headers(weft_gtest_header PRIVATE <gtest/gtest.h>)
endif()

# weft_gtest_objects(NAME SOURCES ... [LINK ...]): tests, or what they share, that several programs link.
function(weft_gtest_objects name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} OBJECT ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${weft_tests_own})  # as weft_gtest_header
  target_link_libraries(${name} PRIVATE weft_flags PUBLIC weft_options ${ARG_LINK} GTest::gtest)
  target_precompile_headers(${name} REUSE_FROM weft_gtest_header)
endfunction()

function(weft_gtest_program name)
  cmake_parse_arguments(ARG "OPTIMIZED" "" "SOURCES;LINK" ${ARGN})
  # libgtest.a needs std::string::reserve(). stdc++ before it has that; else the linker may take it from an archive whose
  # index lists it for an object that has inlined it.
  weft_program(${name} OPTIMIZED SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} stdc++ GTest::gtest GTest::gtest_main)
  if(ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE ${weft_tests_unchecked})
  else()
    target_compile_options(${name} PRIVATE ${weft_tests_own})
    target_precompile_headers(${name} REUSE_FROM weft_gtest_header)
  endif()
endfunction()

# weft_test(NAME LABEL [OPTIMIZED] SOURCES ... [LINK ...] [TIMEOUT s]): a GoogleTest program, run by ctest under LABEL;
# OPTIMIZED, if what it computes itself takes long.
function(weft_test name label)
  cmake_parse_arguments(ARG "OPTIMIZED" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT WEFT_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(WEFT_SANITIZE)  # which makes a program about three times as slow
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  if(ARG_OPTIMIZED)
    set(optimized OPTIMIZED)
  endif()
  weft_gtest_program(${name} ${optimized} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT})
  if(NOT label MATCHES "^(unit|sim)$")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)  # several processes
  endif()
endfunction()

# weft_perf_case(TEST CASE[:CASE...]): these cases of the program of a weft_test depend on the machine's speed: they are a test
# of their own, with the label perf. Not under a sanitizer, which has a speed of its own.
function(weft_perf_case test case)
  set_tests_properties(${test} PROPERTIES ENVIRONMENT GTEST_FILTER=-${case})
  if(NOT WEFT_SANITIZE)
    add_test(NAME ${test}_perf COMMAND ${test} --gtest_filter=${case})
    set_tests_properties(${test}_perf PROPERTIES
      LABELS perf TIMEOUT 120 RUN_SERIAL ON PASS_REGULAR_EXPRESSION "  PASSED  . [1-9]")
  endif()
endfunction()

# weft_softroce_test(NAME SOURCES ... [LINK ...]): a GoogleTest program that needs RDMA devices: a guest of
# tests/softroce runs it.
function(weft_softroce_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  weft_gtest_program(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
endfunction()
