// What becomes of the sums of products by cooperative matrices: stored, added, gated, or handed on packed.
// Sum of what SPLIT subgroups from `from` on have left in shared memory.
float summed(uint from, uint row, uint col) {
    float sum = 0.0;
    [[unroll]] for (uint s = 0; s < SPLIT; s++) {
        uint at = (from + s) * ROOM * 4 + col * MAT_M + row;
        sum += uintBitsToFloat(tile[at / 4][at % 4]);
    }
    return sum;
}

#ifdef HAS_PACK_EPILOGUE
shared float norm_factors[16];

// Hands on an output of a row; 16 threads that follow each other have those of one run.
void send(uint output_row, uint col, float result, bool there) {
    float square = there ? result * result : 0.0;
    [[unroll]] for (uint by = 1; by < MAT_M; by *= 2) square += subgroupShuffleXor(square, by);
    if (!there) return;
    if (output_row % MAT_M == 0) F32(norm_epilogue.v[EPILOGUE_SQUARES]).v[col * (m / MAT_M) + output_row / MAT_M] = square;
    const float weight = F32(norm_epilogue.v[EPILOGUE_NORM]).v[output_row], by = weight / F32(norm_epilogue.v[EPILOGUE_POWERS]).v[col];
    const uint16_t sent = uint16_t(packHalf2x16(vec2(clamp(result * by, -65504.0, 65504.0), 0.0)));
    const uint e = output_row % 4, in_group = e % 2 * 2 + e / 2;
    Halves(norm_epilogue.v[EPILOGUE_CODES]).v[packed_at(NORM_EPILOGUE, TILES, col, output_row / 4) * 4 + in_group] = sent;
    if (NORM_EPILOGUE_2 == 0) return;
    Halves(norm_epilogue.v[EPILOGUE_CODES + 1]).v[packed_at(NORM_EPILOGUE_2, TILES, col, output_row / 4) * 4 + in_group] = sent;
}
#endif

// Stores the sums of the workgroup's outputs from `first` on, of AT_ONCE matrices, which all subgroups have left in shared memory.
void finish(uint first, uint wide0) {
    const uint n = flags >> 8 & 0xffff;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < HEIGHT * MAT_M * MAT_N * AT_ONCE; i += gl_WorkGroupSize.x) {
        uint row = i % MAT_M, near = i / MAT_M % (MAT_N * AT_ONCE), high = i / (MAT_M * MAT_N * AT_ONCE);
        uint col = wide0 * MAT_N + near, output_row = first + high * MAT_M + row;
        const uint pair = EXPERTS > 0 ? pair_at(col) : 0;
        const bool there = output_row < m && (EXPERTS > 0 ? pair != NONE : col < n);
#ifdef HAS_PACK_EPILOGUE
        float result = 0.0;
#endif
        if (there) {
#ifdef HAS_PACK_EPILOGUE
            float scale = (NORM_PROLOGUE == 1 ? norm_factors[col] : norm.v[col / 4][col % 4]) / GAIN;
#else
            float scale = norm.v[col / 4][col % 4] / GAIN;
#endif
            float sum = summed(high * SPLIT * PARTS, row, near) * scale;
            float other = GATED == 1 ? summed((high * PARTS + 1) * SPLIT, row, near) * scale : 0.0;
#ifdef PACK_EPILOGUE_SCALE
            if (PACK_EPILOGUE > 0) {
                float passed = clamp(product(output_row, sum, other) * PACK_EPILOGUE_SCALE, -65504.0, 65504.0);
                uint e = output_row % 4, at = packed_at(PACK_EPILOGUE, TILES, col, output_row / 4) * 4 + e % 2 * 2 + e / 2;
                Halves(y).v[at] = uint16_t(packHalf2x16(vec2(passed, 0.0)));
            } else if (NORM_EPILOGUE > 0) {
                result = before(output_row, col) + product(output_row, sum, other);
                y.v[output_at(output_row, col)] = result;
            } else
#endif
            {
                if (EXPERTS > 0) {
                    if (GATED == 1) {
                        sum = sum * routed_of(2, pair) + expert_bias(0, run_expert, output_row);
                        other = other * routed_of(3, pair) + expert_bias(1, run_expert, output_row);
                    } else {
                        sum = (sum + expert_bias(0, run_expert, output_row)) * routed_of(1, pair);
                    }
                }
                store(output_row, EXPERTS > 0 ? pair : col, sum, other, before(output_row, col));
            }
        }
#ifdef HAS_PACK_EPILOGUE
        if (NORM_EPILOGUE > 0) send(output_row, col, result, there);
#endif
    }
    barrier();
}
