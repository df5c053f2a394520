// What becomes of the sums of products by cooperative matrices: stored, added, gated, or handed on packed.
// Sum of what SPLIT subgroups from `from` on have left in shared memory.
float summed(uint from, uint row, uint col) {
    float sum = 0.0;
    [[unroll]] for (uint s = 0; s < SPLIT; s++) {
        uint at = (from + s) * ROOM * 4 + col * TALL + row;
        sum += uintBitsToFloat(tile[at / 4][at % 4]);
    }
    return sum;
}

#ifdef LINKED
shared float norm_factors[16];

// Hands on an output of a row; 16 threads that follow each other have those of one run.
void send(uint output_row, uint col, float result, bool there) {
    float square = there ? result * result : 0.0;
    [[unroll]] for (uint by = 1; by < TALL; by *= 2) square += subgroupShuffleXor(square, by);
    if (!there) return;
    if (output_row % TALL == 0) F32(link.v[LINK_SQUARES]).v[col * (m / TALL) + output_row / TALL] = square;
    const float weight = F32(link.v[LINK_NORM]).v[output_row], by = weight / F32(link.v[LINK_POWERS]).v[col];
    const uint16_t sent = uint16_t(packHalf2x16(vec2(clamp(result * by, -65504.0, 65504.0), 0.0)));
    const uint e = output_row % 4, in_group = e % 2 * 2 + e / 2;
    Halves(link.v[LINK_CODES]).v[few_at(SENT, TILES, col, output_row / 4) * 4 + in_group] = sent;
    if (SENT_2 > 0) Halves(link.v[LINK_CODES + 1]).v[few_at(SENT_2, TILES, col, output_row / 4) * 4 + in_group] = sent;
}
#endif

// Stores the sums of the workgroup's outputs from `first` on, of AT_ONCE matrices, which all subgroups have left in shared memory.
void finish(uint first, uint wide0) {
    const uint n = flags >> 8 & 0xffff;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < HEIGHT * TALL * WIDE * AT_ONCE; i += gl_WorkGroupSize.x) {
        uint row = i % TALL, near = i / TALL % (WIDE * AT_ONCE), high = i / (TALL * WIDE * AT_ONCE);
        uint col = wide0 * WIDE + near, output_row = first + high * TALL + row;
        const uint pair = EXPERTS > 0 ? pair_at(col) : 0;
        const bool there = output_row < m && (EXPERTS > 0 ? pair != NONE : col < n);
#ifdef LINKED
        float result = 0.0;
#endif
        if (there) {
#ifdef LINKED
            float scale = (NORMED == 1 ? norm_factors[col] : norm.v[col / 4][col % 4]) / GAIN;
#else
            float scale = norm.v[col / 4][col % 4] / GAIN;
#endif
            float sum = summed(high * SPLIT * PARTS, row, near) * scale;
            float other = GATED == 1 ? summed((high * PARTS + 1) * SPLIT, row, near) * scale : 0.0;
#ifdef PASSED_SCALE
            if (PASSED > 0) {
                float passed = clamp(product(output_row, sum, other) * PASSED_SCALE, -65504.0, 65504.0);
                uint e = output_row % 4, at = few_at(PASSED, TILES, col, output_row / 4) * 4 + e % 2 * 2 + e / 2;
                Halves(y).v[at] = uint16_t(packHalf2x16(vec2(passed, 0.0)));
            } else if (SENT > 0) {
                result = before(output_row, col) + product(output_row, sum, other);
                y.v[output_at(output_row, col)] = result;
            } else
#endif
            {
                if (EXPERTS > 0) {
                    sum *= routed_of(GATED == 1 ? 2 : 1, pair);
                    other *= GATED == 1 ? routed_of(3, pair) : 1.0;
                }
                store(output_row, EXPERTS > 0 ? pair : col, sum, other, before(output_row, col));
            }
        }
#ifdef LINKED
        if (SENT > 0) send(output_row, col, result, there);
#endif
    }
    barrier();
}
