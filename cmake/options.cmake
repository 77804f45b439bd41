# Language, warnings and sanitizers, the same for every target.
option(LILY_TESTS "Build the tests" ON)
option(LILY_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" ON)
set(LILY_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The kernels name their own -O3; elsewhere it would buy a fifth more compile time and nothing else.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What ccache asks for to reuse results of sources with precompiled headers; none of ours asks for the time.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# -ffp-contract=off: results must not depend on which multiply-adds the compiler happens to fuse; the kernels
# ask for fused operations by name.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

add_library(lily_warnings INTERFACE)
target_compile_options(lily_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LILY_WARNINGS_AS_ERRORS}>>:-Werror>)

# GCC 12 sees overlaps in `"text" + std::string` that are not there, and with sanitizers unset variables.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(lily_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  if(LILY_SANITIZE)
    target_compile_options(lily_warnings INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

if(LILY_SANITIZE)
  add_compile_options(-fsanitize=${LILY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LILY_SANITIZE})
endif()
