// The router's product: a workgroup multiplies ROWS experts' rows of W with one of the rows of x, after an RMS norm if NORM says so.
// Needs EXPERTS, ROWS, NORM, the buffers of push/router.glsl's first fields, k, flags, eps and product_scale.
const uint SUMS = ROWS + NORM; // of each subgroup; the last is of x's squares
shared float sums[64 * SUMS];
shared uint arrived;

float sum_of(uint i) {
    float sum = 0.0;
    for (uint s = 0; s < gl_NumSubgroups; s++) sum += sums[s * SUMS + i];
    return sum;
}

// Writes the workgroup's logits of `row`. Whether all of the row's are there: its last workgroup to arrive learns so.
bool last_with_logits(uint row) {
    uint t = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * ROWS;
    Line line[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) line[r] = line_of(w, min(first + r, EXPERTS - 1), k);
    float acc[ROWS], square = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) acc[r] = 0.0;
    for (uint c = t; c < k / CHUNK; c += gl_WorkGroupSize.x) {
        Decoded d[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) d[r] = weight_decode(line[r], c);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) {
            vec4 a = x.v[(row * k + chunk_col(c, i)) / 4];
            if (NORM == 1) {
                square += dot(a, a);
                a *= norm.v[chunk_col(c, i) / 4];
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) acc[r] += dot(group_values(d[r], i), a);
        }
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = subgroupAdd(i < ROWS ? acc[min(i, ROWS - 1)] : square);
        if (subgroupElect()) sums[gl_SubgroupID * SUMS + i] = sum;
    }
    barrier();
    if (t < ROWS && first + t < EXPERTS) {
        float logit = sum_of(t) * product_scale;
        if (NORM == 1) logit /= sqrt(sum_of(ROWS) / float(k) + eps);
        if ((flags & 8) != 0) logit += product_bias.v[first + t];
        logits.v[row * EXPERTS + first + t] = logit;
        memoryBarrierBuffer();
    }
    barrier();
    if (t == 0) {
        arrived = atomicAdd(arrivals.v[row], 1);
        if (arrived == gl_NumWorkGroups.x - 1) arrivals.v[row] = 0;
    }
    barrier();
    if (arrived != gl_NumWorkGroups.x - 1) return false;
    memoryBarrierBuffer();
    return true;
}
