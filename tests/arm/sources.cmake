# What the ARM build compiles, relative to the project's root.
set(LILY_ARM_SOURCES
  src/backend/cpu/kernels_generic.cpp
  src/backend/cpu/kernels_neon.cpp
  src/backend/cpu/packed_matrix.cpp
  src/backend/cpu/routing.cpp
  src/backend/cpu/select.cpp
  src/base/huge_buffer.cpp
  tests/kernels/attention_test.cpp
  tests/kernels/delta_net_test.cpp
  tests/kernels/elementwise_test.cpp
  tests/kernels/matmul_test.cpp
  tests/kernels/routing_test.cpp)
