# libcule (csrc/capi), its header, and what find_package(cule) and pkg-config look for.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(cule SHARED csrc/capi/cule.cpp ${CULE_HOST_SOURCES})
cule_compile(cule)
target_compile_definitions(cule PRIVATE CULE_VERSION="${CULE_VERSION}")
target_include_directories(cule INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# SOVERSION is that of the symbols (cule.map): it changes with an incompatible change of the interface.
set_target_properties(cule PROPERTIES
  VERSION ${CULE_VERSION}
  SOVERSION 1
  PUBLIC_HEADER csrc/capi/cule.h)
if(NOT APPLE)
  set(CULE_SYMBOLS "${CMAKE_CURRENT_SOURCE_DIR}/csrc/capi/cule.map")
  target_link_options(cule PRIVATE "LINKER:--version-script=${CULE_SYMBOLS}")
  set_target_properties(cule PROPERTIES LINK_DEPENDS "${CULE_SYMBOLS}")
endif()

set(CULE_CONFIG_FOLDER "${CMAKE_INSTALL_LIBDIR}/cmake/cule")
install(TARGETS cule EXPORT cule
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  PUBLIC_HEADER DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT cule NAMESPACE cule:: FILE cule-config.cmake DESTINATION "${CULE_CONFIG_FOLDER}")
write_basic_package_version_file(cule-config-version.cmake
  VERSION ${CULE_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cule-config-version.cmake"
  DESTINATION "${CULE_CONFIG_FOLDER}")
configure_file(cmake/cule.pc.in cule.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/cule.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
