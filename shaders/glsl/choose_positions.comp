// Scores of blocks of positions -> how many positions a row sees, and which: a workgroup for each row finds the least score that is
// chosen, a byte at a time. Of equals the first are chosen.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
#include "push/choose_positions.glsl"
#include "lib/chosen.glsl"
shared uint counts[256];
shared uvec2 sums[gl_WorkGroupSize.x];
shared uint least, rest, next_key, next_at;

// Numbers as integers in the same order.
uint key(float x) {
    const uint bits = floatBitsToUint(x);
    return bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}

void main() {
    const uint row = first_row + gl_WorkGroupID.x, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) return;
    const uint pos = step_pos(params, row), whole = (pos + 1) / every, behind = (pos + 1) % every, budget = budget_of(pos);
    const uint from = gl_WorkGroupID.x * slots, to = row * list_width + 1;
    if (sees_all(pos)) {
        for (uint i = t; i <= pos; i += size) list.v[to + i] = i;
        if (t == 0) list.v[to - 1] = pos + 1;
        return;
    }
    const uint n = budget / every, some = budget % every; // whole blocks, and of the next best one so many positions
    if (t == 0) {
        least = n > 0 ? 0 : 0xffffffffu;
        rest = n;
        next_key = 0;
        next_at = 0xffffffffu;
    }
    for (uint shift = n > 0 ? 32 : 0; shift > 0;) {
        shift -= 8;
        for (uint i = t; i < 256; i += size) counts[i] = 0;
        barrier();
        const uint above = shift == 24 ? 0 : least >> (shift + 8);
        for (uint j = t; j < whole; j += size) {
            const uint k = key(scores.v[from + j]);
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
    // Each thread has neighbours, so that a single sum over threads says where theirs go.
    const uint per = (whole + size - 1) / size, first = min(t * per, whole), end = min(first + per, whole);
    uvec2 own = uvec2(0);
    for (uint j = first; j < end; j++) {
        const uint k = key(scores.v[from + j]);
        own += uvec2(k > least ? 1 : 0, k == least ? 1 : 0);
    }
    sums[t] = own;
    barrier();
    for (uint d = 1; d < size; d <<= 1) {
        const uvec2 before = t >= d ? sums[t - d] : uvec2(0);
        barrier();
        sums[t] += before;
        barrier();
    }
    uvec2 before = sums[t] - own;
    uint best = 0, best_at = 0xffffffffu;
    for (uint j = first; j < end; j++) {
        const uint k = key(scores.v[from + j]);
        if (k > least || (k == least && before.y < rest)) {
            const uint place = to + (before.x + min(before.y, rest)) * every;
            for (uint i = 0; i < every; i++) list.v[place + i] = j * every + i;
        } else if (best_at == 0xffffffffu || k > best) {
            best = k;
            best_at = j;
        }
        before += uvec2(k > least ? 1 : 0, k == least ? 1 : 0);
    }
    if (some > 0) {
        if (best_at != 0xffffffffu) atomicMax(next_key, best);
        barrier();
        if (best_at != 0xffffffffu && best == next_key) atomicMin(next_at, best_at);
        barrier();
        for (uint i = t; i < some; i += size) list.v[to + n * every + i] = next_at * every + i;
    }
    for (uint i = t; i < behind; i += size) list.v[to + budget + i] = whole * every + i;
    if (t == 0) list.v[to - 1] = budget + behind;
}
