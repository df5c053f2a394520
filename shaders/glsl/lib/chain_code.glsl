// How a stage of chain.glsl comes by its CODE_K inputs: it codes what an earlier dispatch wrote, as gemv_dot.comp does, or takes
// the packets of the stage before.
void CODE_NAME() {
    const uint VECS = (CODE_K / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const bool normed = CODE_NORM && is(NORM);
    uint t = gl_LocalInvocationID.x;
    F32x4 x = F32x4(address(AT_X));
    vec4 held[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) held[j] = x.v[min(t + j * gl_WorkGroupSize.x, CODE_K / 4 - 1)];
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        bool there = i < CODE_K / 4;
        if (CODE_NORM) {
            square += there ? dot(held[j], held[j]) : 0.0;
            held[j] *= weights[min(j, NORM_VECS - 1)];
        }
        if (there) tell_largest(0, i, held[j]);
    }
    if (normed) {
        square = subgroupAdd(square);
        if (subgroupElect()) squares[gl_SubgroupID] = square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        largest_of[j] = largest_told(0, min(t + j * gl_WorkGroupSize.x, CODE_K / 4 - 1));
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < CODE_K / 4) put_codes(0, i, held[j], largest_of[j]);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i % 4 == 0 && i < CODE_K / 4) {
            float scale = largest_of[j] / STEPS;
            uint run = run_at(i / 8), half_at = i / 4 % 2 * 2;
            x_run[run][half_at] = scale;
#ifdef SUMS
            x_run[run][half_at + 1] = scale * float(sum_of_half(unit_of(i)));
#endif
        }
    }
    barrier();
    norm_scale = 1.0;
    if (normed) find_norm_scale(float(CODE_K));
}

void RECEIVE_NAME() {
    const uint ALL = CODE_K / 16 * PARTS, EACH = (ALL + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    uint t = gl_LocalInvocationID.x, wanted = tags + word(AT_EPOCH_IN), looks = 0;
    Packets there = Packets(address(AT_MESSAGES_IN));
    uvec4 held[EACH];
    bool found;
    do {
        found = true;
        [[unroll]] for (uint j = 0; j < EACH; j++) held[j] = there.v[min(t + j * gl_WorkGroupSize.x, ALL - 1)];
        [[unroll]] for (uint j = 0; j < EACH; j++) found = found && held[j].w == wanted;
    } while (again(found, looks));
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < EACH; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < ALL) square += take_part(i, held[j]);
    }
    const bool normed = is(NORM);
    if (normed) {
        square = subgroupAdd(square);
        if (subgroupElect()) squares[gl_SubgroupID] = square;
    }
    barrier();
    norm_scale = 1.0;
    if (normed) find_norm_scale(float(CODE_K));
}
#undef CODE_NAME
#undef RECEIVE_NAME
#undef CODE_K
#undef CODE_NORM
