// route [n, 4 * USED] (route.comp) -> a route of one expert for each of a row's [n * USED, 4], without its weight and scales: for
// products side by side.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint USED = 1;
#include "push/route_pairs.glsl"

void main() {
    const uint pair = gl_GlobalInvocationID.x, from = pair / USED * 4 * USED + pair % USED;
    if (pair >= n * USED) return;
    pairs.v[pair] = vec4(route.v[from], 1.0, 1.0, 1.0);
}
