# weft_modules(NAME...): adds the folders of a layer's modules, in the order in which they build on each other.
function(weft_modules)
  foreach(module IN LISTS ARGN)
    add_subdirectory(${module})
  endforeach()
endfunction()
