// Package sequence is the power sequencer: it turns a verdict into a plan of
// steps and says what ends each of them.
//
// A plan is a value. The engine journals a step before it acts on it, runs its
// action, and asks [Step.Done] with every new reading. Nothing here waits,
// knows a clock or touches a line. Every step has a deadline and says what
// follows when it passes, so that no plan can stay in the middle
// (power-sequencing.md §2.3).
//
// Power is applied by a press of PowerOut, by a level that it keeps, or by a
// list of [Action]s; [Options] say which. What was set is taken back by power
// off and by a sequence that fails.
package sequence
