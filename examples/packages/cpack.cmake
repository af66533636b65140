# Packages of the headers, made by cpack: an archive, or with CLEAVE_DEBIAN libcleave-dev for Debian. Included by the
# project's CMakeLists.txt.
option(CLEAVE_DEBIAN "Install what a Debian package needs" OFF)
set(CPACK_PACKAGE_NAME libcleave-dev)
set(CPACK_PACKAGE_VENDOR "The cleave authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "header-only C++ library that cuts computation graphs into stages")
set(CPACK_PACKAGE_DESCRIPTION "cleave partitions graphs of any type, splits the graph of a model into stages,
makes the schedule of a pipeline, and runs it on threads, processes or GPUs.
The library is headers alone. It has a CMake package with components for what
needs another library, and a file for pkg-config.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ (>= 4:12) | clang (>= 1:16)")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libboost-dev, librange-v3-dev, libonnx-dev, libflatbuffers-dev, libxxhash-dev, libsodium-dev")
set(CPACK_VERBATIM_VARIABLES TRUE)
set(CPACK_STRIP_FILES FALSE)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# What Debian asks of each package: who made it and when, compressed, and the licence.
if(CLEAVE_DEBIAN)
  if(NOT CPACK_PACKAGE_CONTACT MATCHES "@")
    message(FATAL_ERROR "a Debian package names who made it: -DCPACK_PACKAGE_CONTACT=\"Your Name <you@your.host>\"")
  endif()
  set(CPACK_GENERATOR DEB)
  find_program(GZIP gzip REQUIRED)
  set(debian ${PROJECT_BINARY_DIR}/package/debian)
  string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, if set
  file(CONFIGURE OUTPUT ${debian}/changelog CONTENT "libcleave-dev (@PROJECT_VERSION@) unstable; urgency=low

  * Version @PROJECT_VERSION@: see CHANGELOG.md in the source.

 -- @CPACK_PACKAGE_CONTACT@  @now@
" @ONLY)
  execute_process(COMMAND ${GZIP} -9nf ${debian}/changelog COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${debian}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libcleave-dev)
  file(READ LICENSE licence)
  file(CONFIGURE OUTPUT ${debian}/copyright CONTENT "Source: cleave @PROJECT_VERSION@\n\n@licence@" @ONLY)
  install(FILES ${debian}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libcleave-dev)
endif()
include(CPack)
