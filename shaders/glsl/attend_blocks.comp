// Attention of a head of a row, a workgroup each, over the last rows of its sequence, which are the step's or kept in the layer's
// state, and over entries of blocks. Keys are the values too. Candidates go by chunks, whose scores stand in shared memory.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/reduce.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DIM = 64;
layout(constant_id = 2) const uint WINDOW = 1;
layout(constant_id = 3) const uint OWN = 1;    // columns of a thread
layout(constant_id = 4) const uint CHOSEN = 0; // 1: not all entries are seen
#include "push/attend_blocks.glsl"
#include "lib/sequence.glsl"
const uint CHUNK = 512;
shared float scores[CHUNK];
shared uint source[WINDOW]; // rows of the step, the newest first
shared uint in_step;

void main() {
    const uint row = gl_WorkGroupID.x, h = gl_WorkGroupID.y, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) return;
    const uint pos = step_pos(params, row), seen = min(WINDOW, pos + 1);
    if (t == 0) {
        uint count = 0;
        for (uint at = row; at != NO_ROW && count < seen; at = row_before(at)) source[count++] = at;
        in_step = count;
    }
    F32 kept = state_of(row);
    const uint all = seen + (every == 0 ? 0 : min((pos + 1) / every, slots)), from = row * q_width + h * q_stride;
    barrier();
    float most = sinks.v[h], sum = 1.0, acc[OWN];
    for (uint i = 0; i < OWN; i++) acc[i] = 0.0;
    for (uint first = 0; first < all; first += CHUNK) {
        const uint n = min(CHUNK, all - first);
        for (uint i = gl_SubgroupID; i < n; i += gl_NumSubgroups) {
            const uint j = first + i;
            float dots = 0.0;
            if (CHOSEN == 1 && j >= seen && chosen.v[row * chosen_width + j - seen] == 0.0) {
                if (subgroupElect()) scores[i] = -1e30;
                continue;
            }
            if (j < in_step) {
                const uint at = source[j] * k_width;
                for (uint c = gl_SubgroupInvocationID; c < DIM; c += gl_SubgroupSize) dots += q.v[from + c] * k.v[at + c];
            } else {
                const uint at = j < seen ? (pos - j) % WINDOW * DIM : entries_at + (j - seen) * entry_stride;
                for (uint c = gl_SubgroupInvocationID; c < DIM; c += gl_SubgroupSize) dots += q.v[from + c] * kept.v[at + c];
            }
            dots = subgroupAdd(dots);
            if (subgroupElect()) scores[i] = dots * scale;
        }
        barrier();
        float now = most;
        for (uint i = t; i < n; i += size) now = max(now, scores[i]);
        now = workgroup_max(now);
        const float keep = exp(most - now);
        sum *= keep;
        for (uint i = 0; i < OWN; i++) acc[i] *= keep;
        most = now;
        barrier();
        for (uint i = t; i < n; i += size) scores[i] = exp(scores[i] - most);
        barrier();
        for (uint i = 0; i < n; i++) {
            const uint j = first + i;
            const float e = scores[i];
            if (e == 0.0) continue;
            sum += e;
            for (uint o = 0; o < OWN; o++) {
                const uint c = t + o * size;
                if (c >= DIM) break;
                if (j < in_step) acc[o] += e * k.v[source[j] * k_width + c];
                else acc[o] += e * kept.v[(j < seen ? (pos - j) % WINDOW * DIM : entries_at + (j - seen) * entry_stride) + c];
            }
        }
        barrier();
    }
    for (uint o = 0; o < OWN; o++) {
        const uint c = t + o * size;
        if (c < DIM) y.v[row * y_width + h * y_stride + c] = acc[o] / sum;
    }
}
