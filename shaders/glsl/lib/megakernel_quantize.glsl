// How a stage of megakernel.glsl comes by the inputs that INPUTS names: it quantizes what an earlier dispatch wrote, as gemv_dot.comp
// does, or takes the messages of the stage before.
void JOINED(quantize_, INPUTS)() {
    const uint COUNT = JOINED(COUNT_OF_, INPUTS);
    const uint VECS = (COUNT / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const bool normed = JOINED(NORMS_, INPUTS) && is(NORM);
    uint t = gl_LocalInvocationID.x;
    F32x4 x = F32x4(address(AT_X));
    vec4 held[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) held[j] = x.v[min(t + j * gl_WorkGroupSize.x, COUNT / 4 - 1)];
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        bool there = i < COUNT / 4;
        if (JOINED(NORMS_, INPUTS)) {
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
        largest_of[j] = largest_told(0, min(t + j * gl_WorkGroupSize.x, COUNT / 4 - 1));
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < COUNT / 4) put_quantized(0, i, held[j], largest_of[j]);
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i % 4 == 0 && i < COUNT / 4) {
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
    if (normed) find_norm_scale(float(COUNT));
}

void JOINED(receive_, INPUTS)() {
    const uint COUNT = JOINED(COUNT_OF_, INPUTS);
    const uint ALL = COUNT / 16 * PARTS, EACH = (ALL + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    uint t = gl_LocalInvocationID.x, expected = epochs + word(AT_EPOCH_IN), spins = 0;
    Messages there = Messages(address(AT_MESSAGES_IN));
    uvec4 held[EACH];
    bool found;
    do {
        found = true;
        [[unroll]] for (uint j = 0; j < EACH; j++) held[j] = there.v[min(t + j * gl_WorkGroupSize.x, ALL - 1)];
        [[unroll]] for (uint j = 0; j < EACH; j++) found = found && held[j].w == expected;
    } while (again(found, spins));
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
    if (normed) find_norm_scale(float(COUNT));
}
