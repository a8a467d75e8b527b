# How every module, test and program of Weft is declared, so that one warning level, one include root and
# one naming rule hold for all of them.

add_library(weft_options INTERFACE)
target_compile_features(weft_options INTERFACE cxx_std_20)
target_include_directories(weft_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(weft_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  -fno-omit-frame-pointer)

# weft_module(LAYER NAME SOURCES ... [LINK ...]): the static library weft_LAYER_NAME, one folder, one public header.
function(weft_module layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(weft_${layer}_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(weft_${layer}_${name} PUBLIC weft_options ${ARG_LINK})
endfunction()

# weft_test(NAME LABEL SOURCES ... [LINK ...] [TIMEOUT s]): a GoogleTest program, run by ctest under LABEL.
function(weft_test name label)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT WEFT_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main weft_options)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${ARG_TIMEOUT})
  if(NOT label MATCHES "^(unit|sim)$")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)  # several processes: the cores are theirs
  endif()
endfunction()
