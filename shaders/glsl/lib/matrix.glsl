// What products by cooperative matrices share: matrices of weights have 16 rows by 16 inputs, those of activations 16 inputs by
// MAT_N rows of the step.
#include "lib/moe_tiles.glsl"
const uint MAT_M = 16;
const uint EACH = MAT_M * MAT_N / 32; // halves of a thread in a matrix of activations
const uint SHARE = 8 / EACH;        // such matrices in a unit of 16 bytes
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
const uint HEIGHT = SUBGROUPS / (SPLIT * PARTS); // runs of 16 outputs that a workgroup takes at a time
#define Weights coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_M, gl_MatrixUseA>
#define Activations coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
#include "lib/matrix_b.glsl"
#include "lib/matrix_weights.glsl"
#include "lib/matrix_store.glsl"
