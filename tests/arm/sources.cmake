# What the ARM project compiles, from the repository's root: the kernels with what they need, and their tests.
set(LILY_ARM_SOURCES
  src/backend/cpu/kernels_generic.cpp
  src/backend/cpu/kernels_i8mm.cpp
  src/backend/cpu/kernels_neon.cpp
  src/backend/cpu/packed_matrix.cpp
  src/backend/cpu/routing.cpp
  src/backend/cpu/select.cpp
  src/backend/cpu/tile_scratch.cpp
  src/base/huge_buffer.cpp
  tests/kernels/attention_test.cpp
  tests/kernels/delta_net_test.cpp
  tests/kernels/elementwise_test.cpp
  tests/kernels/equality_test.cpp
  tests/kernels/matmul_test.cpp
  tests/kernels/routing_test.cpp
  tests/kernels/tile_matmul_test.cpp)
