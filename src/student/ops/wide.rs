//! Wide vector instructions for loops over slices.

/// Lanes a reduction keeps apart, so that the compiler may use vectors without reordering a single sum.
const LANES: usize = 16;

/// Runs `work` compiled for the widest vectors this machine has. What `work` calls must be `#[inline(always)]`.
/// Results differ between machines only as far as the compiler's rounding does: no fused multiply-add is introduced.
#[inline]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            #[expect(unsafe_code, reason = "a function for a processor's feature is only callable so")]
            // SAFETY: the feature was detected in the line above.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// `e^x` within two units in the last place, without a call, so that loops over it become vectors (the range reduction
/// and polynomial of Cephes' `expf`). Clamped to finite results; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.3, 88.3);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts: the first has few bits, so that its product with n is exact.
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let fraction = p * r * r + r + 1.0;
    fraction * f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// The logistic function.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The inner product of two slices of one length.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    folded(lanes) + tail
}

/// The sum of `a * b * c` over three slices of one length.
#[inline(always)]
pub(crate) fn dot_of_three(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    let (a_chunks, b_chunks, c_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES), c.chunks_exact(LANES));
    let tails = a_chunks.remainder().iter().zip(b_chunks.remainder()).zip(c_chunks.remainder());
    let tail: f32 = tails.map(|((a, b), c)| a * b * c).sum();
    for ((a, b), c) in a_chunks.zip(b_chunks).zip(c_chunks) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane] * c[lane];
        }
    }
    folded(lanes) + tail
}

/// The largest element; negative infinity for none.
#[inline(always)]
pub(crate) fn largest(a: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = a.chunks_exact(LANES);
    let tail = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for a in chunks {
        for lane in 0..LANES {
            // `max` would look at NaN twice; a comparison is one instruction.
            lanes[lane] = if a[lane] > lanes[lane] { a[lane] } else { lanes[lane] };
        }
    }
    lanes.into_iter().fold(tail, f32::max)
}

/// Replaces each element by `e^(scale * x - shift)` and returns their sum.
#[inline(always)]
pub(crate) fn exponentials(a: &mut [f32], scale: f32, shift: f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let mut chunks = a.chunks_exact_mut(LANES);
    for a in &mut chunks {
        for lane in 0..LANES {
            let e = exp(scale * a[lane] - shift);
            a[lane] = e;
            lanes[lane] += e;
        }
    }
    let mut tail = 0.0;
    for a in chunks.into_remainder() {
        *a = exp(scale * *a - shift);
        tail += *a;
    }
    folded(lanes) + tail
}

#[inline(always)]
fn folded(lanes: [f32; LANES]) -> f32 {
    let mut halves = [0.0; LANES / 2];
    for lane in 0..LANES / 2 {
        halves[lane] = lanes[lane] + lanes[lane + LANES / 2];
    }
    halves.into_iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_the_library() {
        for step in -8700..8800 {
            #[expect(clippy::cast_precision_loss, reason = "a small integer")]
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(wide(|| exp(x))) - exact).abs() / exact;
            assert!(error < 3e-7, "exp({x}) is off by {error}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn reductions_count_every_element_once() {
        let a: Vec<f32> = (1..=37_u8).map(f32::from).collect();
        // 1 + 4 + ... + 37^2 = 37 * 38 * 75 / 6.
        assert_eq!(dot(&a, &a), 17_575.0);
        // The sum of the first 37 cubes is the square of 37 * 38 / 2.
        assert_eq!(dot_of_three(&a, &a, &a), 703.0 * 703.0);
        assert_eq!(largest(&a), 37.0);
        let mut logs = vec![0.0; 37];
        assert_eq!(exponentials(&mut logs, 1.0, 0.0), 37.0);
    }
}
