# Debian packages, by `cpack -G DEB` in the build folder: libweft0 (the shared library and the command), libweft-dev (headers,
# static library, CMake and pkg-config files) and, in a build with WEFT_PYTHON, python3-weft.
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR Weft)
set(CPACK_PACKAGE_CONTACT "The Weft authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Transport engine whose ranks talk to their neighbors on a graph")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libweft${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
# They are looked up at run time; `weft devices` says what is missing.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libhwloc15, libibverbs1, libucx0, libpmix2")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")

if(WEFT_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-weft)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3, python3-numpy, ${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
endif()
include(CPack)
