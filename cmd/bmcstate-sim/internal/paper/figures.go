package paper

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bmcstate/bmcstate/state"
)

// Figure is one number that the article's text prints.
type Figure struct {
	Name    string
	Article string // as printed, which says how many digits count
	Of      func(*Runs) float64

	config string // the table cell that it confirms, if any
	policy state.Policy
	metric string
}

// cell is a figure that is the mean of a metric.
func cell(config string, p state.Policy, m Metric, article string) Figure {
	return Figure{
		Name: fmt.Sprintf("%s %s %s", config, p, m.Name), Article: article,
		Of:     func(r *Runs) float64 { return r.Mean(config, p, m).Value },
		config: config, policy: p, metric: m.Name,
	}
}

// Figures are the 28 numbers of the article's text.
func Figures() []Figure {
	figures := []Figure{
		cell("S2", state.Check, S, "52.21"),
		cell("S2", state.Dedup, S, "54.98"),
		cell("S2", state.FIFO, S, "81.54"),
		cell("S2", state.FIFODedup, S, "79.62"),
		cell("S2", state.FIFO, L, "14.63"),
		cell("S2", state.FIFODedup, L, "8.35"),
		{Name: "S2 change of L, FIFO to FIFO_DEDUP %", Article: "-42.9", Of: latencyChange},
		cell("S2", state.FIFO, Queue, "16.84"),
		cell("S2", state.FIFODedup, Queue, "8.74"),
		{Name: "S2 difference of L, 95 % interval, low", Article: "-7.46", Of: func(r *Runs) float64 {
			d := r.LatencyDifference("S2")
			return d.Value - d.Half
		}},
		{Name: "S2 difference of L, 95 % interval, high", Article: "-5.10", Of: func(r *Runs) float64 {
			d := r.LatencyDifference("S2")
			return d.Value + d.Half
		}},
		cell("S2", state.FIFODedup, E, "0.00"),
		cell("S1", state.FIFO, E, "6.19"),
		cell("S1", state.FIFODedup, E, "0.00"),
		cell("S1", state.FIFO, L, "3.82"),
		cell("S1", state.FIFODedup, L, "3.71"),
		cell("S3", state.FIFODedup, E, "0.00"),
		cell("S3", state.FIFODedup, L, "5.55"),
		cell("L0.40", state.FIFO, L, "175.48"),
		cell("L0.40", state.FIFODedup, L, "71.90"),
		cell("L0.40", state.Check, S, "37.95"),
		cell("L0.40", state.Dedup, S, "40.71"),
	}
	for _, c := range Configs()[4:] {
		figures = append(figures, cell(c.Name, state.FIFODedup, S, "79.62"))
	}
	return figures
}

func latencyChange(r *Runs) float64 {
	before := r.Mean("S2", state.FIFO, L).Value
	return 100 * (r.Mean("S2", state.FIFODedup, L).Value - before) / before
}

// Compare returns ours at the article's digits, and whether it is the same.
func (f Figure) Compare(r *Runs) (ours string, exact bool) {
	_, digits, _ := strings.Cut(f.Article, ".")
	ours = strconv.FormatFloat(f.Of(r), 'f', len(digits), 64)
	return ours, ours == f.Article
}

// Difference returns ours less the article's.
func (f Figure) Difference(r *Runs) float64 {
	article, err := strconv.ParseFloat(f.Article, 64)
	if err != nil {
		panic("paper: figure " + f.Name + " is no number: " + f.Article) // a typing error in Figures
	}
	return f.Of(r) - article
}

// confirms tells which table cells the article's text confirms.
func confirms() map[string]bool {
	out := map[string]bool{}
	for _, f := range Figures() {
		if f.config != "" {
			out[f.config+f.policy.String()+f.metric] = true
		}
	}
	return out
}
