# Compiles sources of a target together, at most WEFT_UNITY at once: what they include is then read once, which makes a
# build from nothing shorter and a small change longer. unity.py says which sources can be together. A source that it puts
# where it cannot be compiled gets the property SKIP_UNITY_BUILD_INCLUSION.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

# weft_targets_below(FOLDER OUT): the targets that FOLDER and the folders below it make.
function(weft_targets_below folder out)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each IN LISTS folders)
    weft_targets_below(${each} more)
    list(APPEND targets ${more})
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

# weft_unite(MOST): for all targets that exist.
function(weft_unite most)
  weft_targets_below(${PROJECT_SOURCE_DIR} targets)
  set(text "")
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(EXECUTABLE|STATIC_LIBRARY|OBJECT_LIBRARY)$")
      continue()
    endif()
    get_target_property(folder ${target} SOURCE_DIR)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cc$")
    list(TRANSFORM sources PREPEND ${folder}/ REGEX "^[^/]")
    list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/")
    list(FILTER sources EXCLUDE REGEX "^${PROJECT_BINARY_DIR}/")
    if(NOT sources)
      continue()
    endif()
    string(APPEND text "${folder};${target};${sources}\n")
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/unity.list "${text}")
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/cmake/unity.py
    ${PROJECT_SOURCE_DIR} ${most} ${PROJECT_BINARY_DIR}/unity.list
    OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([^ ]+) ([^ ]+) (.+)$" _ "${line}")
    set_target_properties(${CMAKE_MATCH_1} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_property(SOURCE ${CMAKE_MATCH_3} TARGET_DIRECTORY ${CMAKE_MATCH_1} PROPERTY UNITY_GROUP ${CMAKE_MATCH_2})
  endforeach()
endfunction()
