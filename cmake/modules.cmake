# weft_modules(NAME...): adds the folders of a layer's modules, in the order in which they build on each other.
function(weft_modules)
  foreach(module IN LISTS ARGN)
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${module}/CMakeLists.txt)
      add_subdirectory(${module})
    endif()
  endforeach()
endfunction()
