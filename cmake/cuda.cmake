# The native module cule._cuda, with nvcc: on the path (or CUDACXX), or in the Python packages
# nvidia-cuda-nvcc, nvidia-cuda-runtime, nvidia-nvvm, nvidia-cuda-crt of the running interpreter.
# CULE_CUDA=AUTO builds it for the GPUs of this machine, as nvidia-smi names them, and ON for all
# architectures; CULE_CUDA_ARCHITECTURES overrides both. Each architecture compiles every kernel.
# Sets CULE_CUDA_CONFIG, a line that says what was built.
set(CULE_CUDA_CONFIG "not built in")
string(TOUPPER "${CULE_CUDA}" CULE_CUDA_MODE)
if(NOT CULE_CUDA_MODE MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CULE_CUDA is ${CULE_CUDA}; it must be AUTO, ON or OFF")
endif()
if(CULE_CUDA_MODE STREQUAL "OFF")
  return()
endif()

# "90-real" for each kind of GPU here.
set(CULE_CUDA_HERE "")
if(CULE_CUDA_MODE STREQUAL "AUTO" AND NOT CULE_CUDA_ARCHITECTURES)
  find_program(CULE_NVIDIA_SMI nvidia-smi)
  if(CULE_NVIDIA_SMI)
    execute_process(COMMAND "${CULE_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE CULE_GPUS ERROR_QUIET TIMEOUT 30)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" CULE_GPUS "${CULE_GPUS}")
    foreach(capability IN LISTS CULE_GPUS)
      string(REPLACE "." "" arch "${capability}")
      list(APPEND CULE_CUDA_HERE "${arch}")
    endforeach()
    list(REMOVE_DUPLICATES CULE_CUDA_HERE)
  endif()
  if(NOT CULE_CUDA_HERE)
    set(CULE_CUDA_CONFIG "not built in: no GPU where cule was built")
    message(STATUS "No GPU here: the CPU back end alone is built; set CULE_CUDA_ARCHITECTURES for others")
    return()
  endif()
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CULE_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NOT CULE_NVCC)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
        "import nvidia, pathlib; print(next(p for r in nvidia.__path__ for p in sorted(pathlib.Path(r).glob('*/bin/nvcc'))))"
      OUTPUT_VARIABLE CULE_NVCC_FOUND OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(CULE_NVCC_FOUND)
      set(CULE_NVCC "${CULE_NVCC_FOUND}" CACHE FILEPATH "nvcc of the Python packages" FORCE)
      # These keep their libraries in lib, where nvcc looks in lib64.
      get_filename_component(CULE_NVCC_ROOT "${CULE_NVCC}/../.." REALPATH)
      set(ENV{CUDAFLAGS} "$ENV{CUDAFLAGS} -L${CULE_NVCC_ROOT}/lib")
    endif()
  endif()
  if(CULE_NVCC)
    set(CMAKE_CUDA_COMPILER "${CULE_NVCC}")
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(CULE_CUDA_MODE STREQUAL "ON")
    message(FATAL_ERROR "CULE_CUDA is ON, but no working nvcc was found; put it on the path, or set "
      "CUDACXX, or install the Python package nvidia-cuda-nvcc")
  endif()
  message(STATUS "No nvcc: the CPU back end alone is built")
  return()
endif()

# Before enable_language(), which else asks for an architecture of its own.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES OFF)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
  if(CULE_CUDA_MODE STREQUAL "ON")
    message(FATAL_ERROR "CULE_CUDA is ON, but nvcc is ${CMAKE_CUDA_COMPILER_VERSION}; 12.0 or later is needed")
  endif()
  message(STATUS "nvcc is ${CMAKE_CUDA_COMPILER_VERSION}, older than 12.0: the CPU back end alone is built")
  return()
endif()

if(CULE_CUDA_ARCHITECTURES)
  set(CULE_CUDA_BUILT "${CULE_CUDA_ARCHITECTURES}")
else()
  # Machine code for each of ours that this nvcc knows, and PTX of the newest for what comes after.
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch
    OUTPUT_VARIABLE CULE_NVCC_KNOWS OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(CULE_CUDA_BUILT "")
  set(CULE_CUDA_NEWEST "")
  foreach(arch 75 80 86 89 90 100 120)
    if(CULE_NVCC_KNOWS MATCHES "compute_${arch}(\n|$)")
      list(APPEND CULE_CUDA_BUILT "${arch}-real")
      set(CULE_CUDA_NEWEST "${arch}")
    endif()
  endforeach()
  if(NOT CULE_CUDA_NEWEST)
    message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} knows none of the architectures 75 to 120; set "
      "CULE_CUDA_ARCHITECTURES")
  endif()
  if(CULE_CUDA_HERE)
    set(CULE_CUDA_BUILT "")
    foreach(arch IN LISTS CULE_CUDA_HERE)
      if(CULE_NVCC_KNOWS MATCHES "compute_${arch}(\n|$)")
        list(APPEND CULE_CUDA_BUILT "${arch}-real")
      else()
        list(APPEND CULE_CUDA_BUILT "${CULE_CUDA_NEWEST}-virtual")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES CULE_CUDA_BUILT)
  else()
    list(APPEND CULE_CUDA_BUILT "${CULE_CUDA_NEWEST}-virtual")
  endif()
endif()

# As text: a semicolon would split a definition in two.
string(REPLACE ";" " " CULE_CUDA_BUILT_TEXT "${CULE_CUDA_BUILT}")

pybind11_add_module(_cuda MODULE NO_EXTRAS ${CULE_CUDA_SOURCES})
target_include_directories(_cuda PRIVATE csrc csrc/cuda/device)
# For the files that the host compiler gets. The runtime is linked by CUDA_RUNTIME_LIBRARY.
target_include_directories(_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(_cuda PRIVATE Threads::Threads)
if(CULE_NVCC_ROOT)
  target_link_directories(_cuda PRIVATE "${CULE_NVCC_ROOT}/lib")
endif()
target_compile_options(_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -fvisibility=hidden -Wall -Wextra>
  "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--Werror=cross-execution-space-call;--compiler-options=-fvisibility=hidden>")
set_target_properties(_cuda PROPERTIES
  VISIBILITY_INLINES_HIDDEN ON
  CUDA_STANDARD 17
  CUDA_STANDARD_REQUIRED ON
  CUDA_RUNTIME_LIBRARY Static
  CUDA_ARCHITECTURES "${CULE_CUDA_BUILT}")
target_compile_definitions(_cuda PRIVATE
  CULE_CUDA_ARCHITECTURES="${CULE_CUDA_BUILT_TEXT}"
  CULE_CUDA_TOOLKIT="${CMAKE_CUDA_COMPILER_VERSION}")
install(TARGETS _cuda LIBRARY DESTINATION cule)
set(CULE_CUDA_CONFIG "toolkit ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CULE_CUDA_BUILT_TEXT}")
message(STATUS "CUDA back end: ${CULE_CUDA_CONFIG}")
