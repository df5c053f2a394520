// Scores of entries -> 1 for the largest of a row, else 0, in place: a workgroup for each row finds the least score that is chosen, a
// byte at a time. Of equals the first are chosen.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/choose_blocks.glsl"
shared uint counts[256];
shared uint flags[gl_WorkGroupSize.x];
shared uint least, rest, ties;

// Numbers as integers in the same order.
uint key(float x) {
    const uint bits = floatBitsToUint(x);
    return bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}

void main() {
    const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x, from = row * y_width;
    if (row >= params.w[STEP_ROWS]) return;
    const uint count = min(slots, (step_pos(params, row) + 1) / every);
    if (count <= most) {
        for (uint j = t; j < count; j += size) y.v[from + j] = 1.0;
        return;
    }
    if (t == 0) {
        least = 0;
        rest = most;
        ties = 0;
    }
    for (uint shift = 32; shift > 0;) {
        shift -= 8;
        for (uint i = t; i < 256; i += size) counts[i] = 0;
        barrier();
        const uint above = shift == 24 ? 0 : least >> (shift + 8);
        for (uint j = t; j < count; j += size) {
            const uint k = key(y.v[from + j]);
            if (shift == 24 || k >> (shift + 8) == above) atomicAdd(counts[(k >> shift) & 255], 1);
        }
        barrier();
        if (t == 0) {
            uint i = 255, left = rest;
            while (i > 0 && counts[i] < left) left -= counts[i--];
            rest = left;
            least |= i << shift;
        }
        barrier();
    }
    for (uint first = 0; first < count; first += size) {
        const uint j = first + t, k = j < count ? key(y.v[from + j]) : 0;
        flags[t] = uint(j < count && k == least);
        barrier();
        uint before = ties;
        for (uint i = 0; i < t; i++) before += flags[i];
        if (j < count) y.v[from + j] = k > least || (k == least && before < rest) ? 1.0 : 0.0;
        barrier();
        if (t == size - 1) ties = before + flags[t];
        barrier();
    }
}
