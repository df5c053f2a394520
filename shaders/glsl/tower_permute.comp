// Numbers in another order: a thread for each.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "push/tower_permute.glsl"
#include "lib/tower.glsl"

void main() {
    const uint i = number_of_thread();
    if (i >= count) return;
    uint rest = i, from = 0;
    for (uint d = 0; d < dims; d++) {
        from += rest % lens[d] * apart[d];
        rest /= lens[d];
    }
    y.v[i] = x.v[from];
}
