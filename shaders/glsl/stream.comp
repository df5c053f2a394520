// Streams n 16-byte words from x: with COPY to y, else into a sum that is written only if it is a value it never has.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 1) const uint COPY = 0;
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Out { uvec4 v[]; };
#include "push/stream.glsl"

void main() {
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    uvec4 sum = uvec4(0);
    for (uint i = gl_GlobalInvocationID.x; i < n; i += 4 * step) {
        uvec4 q[4];
        [[unroll]] for (uint j = 0; j < 4; j++) q[j] = x.v[min(i + j * step, n - 1)];
        if (COPY == 1) {
            [[unroll]] for (uint j = 0; j < 4; j++) y.v[min(i + j * step, n - 1)] = q[j];
        } else sum |= q[0] | q[1] | q[2] | q[3];
    }
    if (COPY == 0 && sum.x == 0xdeadbeef && sum.y == 0xabad1dea) y.v[0] = sum;
}
