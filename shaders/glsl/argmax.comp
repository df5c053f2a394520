// logits [w, vocab] -> the greedy id of each output row, kept per sequence for the next step and listed for the host.
// Workgroups take parts of a row; the last to arrive compares what they found. The first of equal logits wins. A NaN among them
// outdoes all: the host is told, and the next step goes on with some id of the vocabulary.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Found { uint v[]; };
#include "push/argmax.glsl"
const uint NONE = 0xffffffff;
shared float best_value[gl_WorkGroupSize.x];
shared uint best_id[gl_WorkGroupSize.x];
shared uint arrived;

bool better(float v, uint id, float than, uint than_id) {
    bool above = id == ID_NAN || v > than || (v == than && id < than_id);
    return id != NONE && than_id != ID_NAN && (than_id == NONE || above);
}

// The best of all threads' (v, id), in the first place of the shared arrays.
void join(float v, uint id) {
    uint t = gl_LocalInvocationID.x;
    best_value[t] = v;
    best_id[t] = id;
    for (uint half_size = gl_WorkGroupSize.x / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (t < half_size && better(best_value[t + half_size], best_id[t + half_size], best_value[t], best_id[t])) {
            best_value[t] = best_value[t + half_size];
            best_id[t] = best_id[t + half_size];
        }
    }
    barrier();
}

void main() {
    uint row = gl_WorkGroupID.x, part = gl_WorkGroupID.y, parts = gl_NumWorkGroups.y, t = gl_LocalInvocationID.x;
    const uint step = parts * gl_WorkGroupSize.x;
    uint i = part * gl_WorkGroupSize.x + t;
    float l = logits.v[row * vocab + min(i, vocab - 1)], next = logits.v[row * vocab + min(i + step, vocab - 1)];
    if (row >= params.w[STEP_OUTPUTS]) return; // the recording has room for more; nothing above waits for the answer
    float value = 0.0;
    uint id = NONE, largest = 0; // of the bits but the sign: infinity's, unless there is a NaN
    for (; i < vocab; i += step) {
        largest = max(largest, floatBitsToUint(l) & 0x7fffffffu);
        if (id == NONE || l > value) {
            value = l;
            id = i;
        }
        l = next;
        next = logits.v[row * vocab + min(i + 2 * step, vocab - 1)];
    }
    if (largest > 0x7f800000u) id = ID_NAN;
    join(value, id);
    if (parts > 1) {
        uint at = row * parts * 2;
        if (t == 0) {
            found.v[at + 2 * part] = floatBitsToUint(best_value[0]);
            found.v[at + 2 * part + 1] = best_id[0];
            memoryBarrierBuffer();
            arrived = atomicAdd(arrivals.v[row], 1);
            if (arrived == parts - 1) arrivals.v[row] = 0;
        }
        barrier();
        if (arrived != parts - 1) return;
        memoryBarrierBuffer();
        value = 0.0;
        id = NONE;
        for (uint i = t; i < parts; i += gl_WorkGroupSize.x) {
            float v = uintBitsToFloat(found.v[at + 2 * i]);
            uint o = found.v[at + 2 * i + 1];
            if (better(v, o, value, id)) {
                value = v;
                id = o;
            }
        }
        join(value, id);
    }
    if (t == 0) {
        sampled.v[step_place(params, row)] = best_id[0] == ID_NAN ? 0 : best_id[0];
        ids.v[row] = best_id[0];
    }
}
