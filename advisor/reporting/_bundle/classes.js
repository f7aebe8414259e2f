// The meaning of a classifier's outputs: the probability of each class.
const meaningOf = ([probabilities]) => ({found: Array.from(probabilities)});
