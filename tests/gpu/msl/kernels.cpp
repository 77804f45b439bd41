// All kernels as the metal compiler would read them; only ever parsed.
#define __METAL_VERSION__ 400
#include "backend/gpu/kernels/all.h"
