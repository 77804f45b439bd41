// A stand-in for the tensor operations of Metal 4: the shape of matmul2d. Needs -std=c++20.
#pragma once
namespace metal {
struct execution_simdgroup {};
template <int N>
struct execution_simdgroups {};
template <class T>
using remove_addrspace_t = T;
}  // namespace metal
namespace mpp::tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;
  bool transpose_left, transpose_right, relaxed_precision;
  mode matmul_mode;
  constexpr matmul2d_descriptor(int m_, int n_, int k_, bool tl = false, bool tr = false,
                                bool relaxed = false, mode md = mode::multiply)
      : m(m_),
        n(n_),
        k(k_),
        transpose_left(tl),
        transpose_right(tr),
        relaxed_precision(relaxed),
        matmul_mode(md) {}
};
template <class T, int N>
struct cooperative_tensor {
  T v[N];
  T& operator[](int i) { return v[i]; }
  unsigned short get_capacity() const;
  bool is_valid_element(int) const;
};
template <matmul2d_descriptor D, class Scope>
struct matmul2d {
  template <class L, class R, class C>
  cooperative_tensor<L, D.m * D.k / 32> get_left_input_cooperative_tensor() const;
  template <class L, class R, class C>
  cooperative_tensor<R, D.n * D.k / 32> get_right_input_cooperative_tensor() const;
  template <class L, class R, class C>
  cooperative_tensor<C, D.m * D.n / 32> get_destination_cooperative_tensor() const;
  template <class L, class R, class C>
  void run(L&, R&, C&) const;
};
}  // namespace mpp::tensor_ops
