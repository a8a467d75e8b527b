# The library that programs link: weft::weft. It is made of the objects of the modules, so nothing is compiled twice.
#
#   libweft.so  shows the names of cmake/exports.map and nothing else; binds its own names to itself; stays loaded.
#   libweft.a   the same sealed in one object: every other name in it is local, so that the libraries that it contains
#               (fmt, libsodium's hash) cannot meet another copy of them.
#   weft_inside the modules as they are: for Weft's own programs and for projects that build Weft as a part of them.
include(GNUInstallDirs)

# weft_closure(OUT TARGET…): these modules and those that they need, in OUT; OUT_foreign: the libraries of others.
function(weft_closure out)
  set(open ${ARGN})
  set(modules)
  set(foreign)
  while(open)
    list(POP_FRONT open target)
    if(target IN_LIST modules)
      continue()
    endif()
    list(APPEND modules ${target})
    get_target_property(needs ${target} LINK_LIBRARIES)
    foreach(need IN LISTS needs)
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" need "${need}")
      if(need MATCHES "^weft_(verbs|topology|scheduler|engine|bindings)_")
        list(APPEND open ${need})
      elseif(need AND NOT need MATCHES "^weft_")
        list(APPEND foreign ${need})
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES foreign)
  set(${out} ${modules} PARENT_SCOPE)
  set(${out}_foreign ${foreign} PARENT_SCOPE)
endfunction()

weft_closure(weft_parts weft_bindings_c)
list(TRANSFORM weft_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE weft_objects)

add_library(weft_inside STATIC ${weft_objects})
target_link_libraries(weft_inside PUBLIC ${weft_parts_foreign})
target_compile_features(weft_inside PUBLIC cxx_std_20)
target_include_directories(weft_inside PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
set_target_properties(weft_inside PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

add_library(weft::private ALIAS weft_inside)
if(WEFT_TOOLS)
  add_executable(weft::command ALIAS weft)
endif()

set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
add_library(weft_shared SHARED ${weft_objects})
target_link_libraries(weft_shared PRIVATE ${weft_parts_foreign})
target_compile_features(weft_shared PUBLIC cxx_std_20)
target_include_directories(weft_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(weft_shared PRIVATE ${weft_inlined} -Wl,--version-script=${exports} -Wl,-Bsymbolic -Wl,--exclude-libs,ALL
                                        -Wl,-z,nodelete -Wl,-z,defs -Wl,--as-needed)
set_target_properties(weft_shared PROPERTIES
  LINKER_LANGUAGE CXX OUTPUT_NAME weft EXPORT_NAME shared VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(WEFT_SANITIZE)  # whose runtime the program has, not the library
  set_target_properties(weft_shared PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
if(BUILD_SHARED_LIBS)
  add_library(weft::weft ALIAS weft_shared)
else()
  add_library(weft::weft ALIAS weft_inside)
endif()
if(NOT WEFT_INSTALL OR WEFT_SANITIZE)
  return()
endif()

# The sealed archive. Forms for link-time optimization are left out: they would be read instead of the sealed names.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exports})
file(STRINGS ${exports} shown REGEX "^    [A-Za-z_][A-Za-z0-9_]*;$")
list(TRANSFORM shown REPLACE " *([A-Za-z0-9_]+);" "\\1")
list(JOIN shown "\n" shown)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/exports.txt CONTENT "${shown}\n")
set(sealed ${PROJECT_BINARY_DIR}/lib/libweft.a)
add_custom_command(OUTPUT ${sealed}
  COMMAND ${CMAKE_LINKER} -r -d --force-group-allocation -o sealed.o
          --whole-archive $<TARGET_FILE:weft_inside> --no-whole-archive ${WEFT_SODIUM}
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${PROJECT_BINARY_DIR}/exports.txt --wildcard
          --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_* --strip-debug sealed.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${sealed}
  COMMAND ${CMAKE_AR} rcs ${sealed} sealed.o
  COMMAND ${CMAKE_COMMAND} -E rm -f sealed.o
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/lib DEPENDS weft_inside ${exports} ${PROJECT_BINARY_DIR}/exports.txt VERBATIM)
add_custom_target(weft_sealed ALL DEPENDS ${sealed})

include(CMakePackageConfigHelpers)
set(weft_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
configure_package_config_file(cmake/weft-config.cmake.in ${PROJECT_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${weft_cmake_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH weft_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)

install(TARGETS weft_shared EXPORT weft-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${weft_cmake_dir} COMPONENT dev)
install(FILES ${sealed} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/weft-config.cmake ${PROJECT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${weft_cmake_dir} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
if(WEFT_TOOLS)
  install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
