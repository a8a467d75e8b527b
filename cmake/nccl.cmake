# libnccl-net-weft.so: NCCL loads it if NCCL_NET_PLUGIN is "weft". It contains the modules that it needs, and shows its
# tables alone.
weft_closure(weft_nccl_parts weft_bindings_nccl)
list(TRANSFORM weft_nccl_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE weft_nccl_objects)
add_library(weft_nccl_net SHARED ${weft_nccl_objects})
target_link_libraries(weft_nccl_net PRIVATE ${weft_nccl_parts_foreign})
set(shown ${PROJECT_SOURCE_DIR}/bindings/nccl/shown.map)
target_link_options(weft_nccl_net PRIVATE ${weft_as_compiled} -Wl,--version-script=${shown} -Wl,-Bsymbolic -Wl,--exclude-libs,ALL
  -Wl,-z,nodelete -Wl,--as-needed)
if(NOT WEFT_SANITIZE)  # whose runtime the program has
  target_link_options(weft_nccl_net PRIVATE -Wl,-z,defs)
endif()
set_target_properties(weft_nccl_net PROPERTIES
  LINKER_LANGUAGE CXX OUTPUT_NAME nccl-net-weft LINK_DEPENDS ${shown} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(WEFT_INSTALL AND NOT WEFT_SANITIZE)
  install(TARGETS weft_nccl_net LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
