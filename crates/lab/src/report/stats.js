"use strict";

// The value that a share of the values lie below, interpolated linearly; as `stats.rs` has it. `sorted` ascends.
function quantile(sorted, share) {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}

// The same, or null if there are too few values to say it.
function percentile(sorted, share) {
  const beyond = Math.min(share, 1 - share);
  const carried = beyond <= 0 || share === 0.5 || sorted.length * beyond >= 1 - 1e-9;
  return sorted.length && carried ? quantile(sorted, share) : null;
}

// The distribution of values as points for steps that first rise, then go on: it begins at 0.
function steps(sorted) {
  const first = sorted.slice(0, 1);
  return { x: [...first, ...sorted], y: [...first.map(() => 0), ...sorted.map((_, place) => (place + 1) / sorted.length)] };
}
