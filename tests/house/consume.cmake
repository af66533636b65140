# A stranger's project uses cleave: installed and found, or as a subdirectory.
#   cmake -DMODE=package|subdirectory|unknown|mpi -DTREE=… -DBUILD=… -DSCRATCH=… -DCOMPILER=… -DMPI_COMPILER=… -DCOMPONENTS=a;b
#     -P consume.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${SCRATCH})
set(configure ${CMAKE_COMMAND} -S ${TREE}/tests/house/consume -B ${SCRATCH}/build -G Ninja -DCMAKE_CXX_COMPILER=${COMPILER})
if(MODE STREQUAL "subdirectory")
  list(APPEND configure -DCLEAVE_TREE=${TREE})
else()
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND configure -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix)
endif()

if(MODE STREQUAL "mpi")
  list(APPEND configure -DMPI_CXX_COMPILER=${MPI_COMPILER})
endif()

if(MODE STREQUAL "unknown")
  execute_process(COMMAND ${configure} -DCOMPONENTS=quantum RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(status EQUAL 0 OR NOT said MATCHES "no component 'quantum', only boost, range_v3, bytes, onnx, mpi, cuda")
    message(FATAL_ERROR "an unknown component is not refused by name: ${said}")
  endif()
  return()
endif()

execute_process(COMMAND ${configure} "-DCOMPONENTS=${COMPONENTS}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${SCRATCH}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${SCRATCH}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${SCRATCH})
