// logits [w, vocab] -> the greedy id of each wanted row, kept per sequence for the next step and listed for the host.
// The first of equal logits wins.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push {
    F32 logits;
    Step params;
    U32 sampled; // [n_seqs]
    U32 ids;     // [w]
    uint vocab;
};
shared float best_value[1024];
shared uint best_id[1024];

void main() {
    uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_WANTED]) return;
    float value = -3.4e38;
    uint id = 0xffffffff;
    for (uint i = t; i < vocab; i += gl_WorkGroupSize.x) {
        float l = logits.v[row * vocab + i];
        if (l > value || id == 0xffffffff) {
            value = l;
            id = i;
        }
    }
    best_value[t] = value;
    best_id[t] = id;
    for (uint half_size = gl_WorkGroupSize.x / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (t < half_size) {
            float v = best_value[t + half_size];
            uint o = best_id[t + half_size];
            if (o != 0xffffffff && (v > best_value[t] || (v == best_value[t] && o < best_id[t]))) {
                best_value[t] = v;
                best_id[t] = o;
            }
        }
    }
    if (t == 0) {
        sampled.v[step_seq(params, step_wanted(params, row))] = best_id[0];
        ids.v[row] = best_id[0];
    }
}
