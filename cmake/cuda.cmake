# The CUDA compiler, and layers compiled by it. Found on PATH, in CUDA_HOME, at the toolkit's usual place, or among
# the PyPI wheels that tools/setup.sh brings; without one the build has no CUDA driver and says so.
option(LILY_CUDA "Build the CUDA backend where a CUDA compiler is found" ON)
# sm_80 runs on 8.x; its PTX on everything newer but 9.0, which has kernels of its own.
set(LILY_CUDA_ARCHITECTURES "80;90-real" CACHE STRING "Architectures of the kernels that all GPUs run")
set(LILY_CUDA_FOUND OFF)

if(LILY_CUDA AND LILY_SANITIZE)
  message(STATUS "CUDA: left out, the sanitizers do not see into GPUs")
elseif(LILY_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    file(GLOB LILY_CUDA_WHEEL ${PROJECT_SOURCE_DIR}/build/cuda/lib/python3*/site-packages/nvidia/cu13/bin)
    find_program(LILY_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin ${LILY_CUDA_WHEEL})
    if(LILY_NVCC)
      set(CMAKE_CUDA_COMPILER ${LILY_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    # Named per target; what CMake would choose by itself is older than what the kernels need.
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc has C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    # 12.4: launches that overlap their predecessor can be captured into graphs.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
      message(WARNING "CUDA: ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}, 12.4 is needed; the cuda backend is left out")
    else()
      set(LILY_CUDA_FOUND ON)
    endif()
  else()
    message(WARNING "CUDA: no nvcc on PATH, in CUDA_HOME or in build/cuda (tools/setup.sh brings it); the cuda backend is left out")
  endif()
endif()

# lily_cuda_layer(NAME SOURCES ... LINK ... ARCHITECTURES ...): a layer with .cu files. The runtime is linked statically
# and finds the driver when it is called, so that one program runs with and without a GPU.
function(lily_cuda_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 LAYER "" "" "SOURCES;LINK;ARCHITECTURES")
  add_library(${name} STATIC ${LAYER_SOURCES})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${LAYER_ARCHITECTURES}" CUDA_RUNTIME_LIBRARY Static)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${LILY_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings>)
  target_link_libraries(${name} PUBLIC ${LAYER_LINK})
  if(LAYER_SOURCES MATCHES "\\.cpp")
    target_link_libraries(${name} PRIVATE lily_warnings)
  endif()
endfunction()
