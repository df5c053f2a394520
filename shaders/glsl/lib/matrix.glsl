// What products by cooperative matrices share: matrices of weights have 16 rows by 16 inputs, those of activations 16 inputs by
// WIDE rows of the step.
#include "lib/group.glsl"
const uint TALL = 16;
const uint EACH = TALL * WIDE / 32; // halves of a thread in a matrix of activations
const uint SHARE = 8 / EACH;        // such matrices in a unit of 16 bytes
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
const uint HEIGHT = SUBGROUPS / (SPLIT * PARTS); // runs of 16 outputs that a workgroup takes at a time
#define Weights coopmat<float16_t, gl_ScopeSubgroup, TALL, TALL, gl_MatrixUseA>
#define Activations coopmat<float16_t, gl_ScopeSubgroup, TALL, WIDE, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, TALL, WIDE, gl_MatrixUseAccumulator>
#include "lib/matrix_b.glsl"
#include "lib/matrix_weights.glsl"
#include "lib/matrix_store.glsl"
