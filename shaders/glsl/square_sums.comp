// sums [matrices, k] += column sums of x² over the step's rows, of an expert over the rows that reach it; a thread owns four
// columns of a matrix. Experts' counts of rows stand after all sums.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint EXPERTS = 0; // 1: x has a row for all experts of a row, 2: one for each
#include "push/square_sums.glsl"

void main() {
    uint i = gl_GlobalInvocationID.x, matrix = gl_WorkGroupID.y, matrices = gl_NumWorkGroups.y;
    if (i >= k / 4) return;
    uint at = matrix * (k / 4) + i;
    vec4 sum = sums.v[at];
    float count = 0.0;
    for (uint pair = 0; pair < params.w[STEP_ROWS] * used; pair++) {
        uint row = pair / used;
        if (EXPERTS > 0 && floatBitsToUint(route.v[row * 4 * used + pair % used]) != matrix) continue;
        vec4 a = x.v[(EXPERTS == 2 ? pair : row) * (k / 4) + i];
        sum += a * a;
        count += 1.0;
    }
    sums.v[at] = sum;
    if (EXPERTS > 0 && i == 0) sums.v[matrices * (k / 4) + matrix / 4][matrix % 4] += count;
}
