// route [n, 4 * USED] (route.comp) -> the same without weights and scales, or a route of one expert for each of a row's
// [n * USED, 4]: for products side by side.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint USED = 1;
layout(constant_id = 2) const uint APART = 1; // 1: of one expert
#include "push/route_pairs.glsl"

void main() {
    const uint pair = gl_GlobalInvocationID.x, from = pair / USED * 4 * USED + pair % USED;
    if (pair >= n * USED) return;
    const uint to = APART == 1 ? 4 * pair : from, step = APART == 1 ? 1 : USED;
    pairs.v[to] = route.v[from];
    for (uint i = 1; i < 4; i++) pairs.v[to + i * step] = 1.0;
}
