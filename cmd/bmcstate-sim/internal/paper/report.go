package paper

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Report writes the comparison and the full tables. The last line says how many
// figures are exact; Report returns whether all are.
func Report(out io.Writer, r *Runs) (all bool, err error) {
	w := &printer{w: out}
	exact := w.figures(r)
	w.tables(r)
	w.differences(r)
	w.printf("\n%d of %d EXACT\n", exact, len(Figures()))
	return exact == len(Figures()), w.err
}

// printer keeps the first error of its writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table prints what fill prints, with its columns aligned.
func (p *printer) table(fill func(row func(format string, args ...any))) {
	tw := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fill(func(format string, args ...any) {
		if p.err == nil {
			_, p.err = fmt.Fprintf(tw, format+"\n", args...)
		}
	})
	if p.err == nil {
		p.err = tw.Flush()
	}
}

func (p *printer) figures(r *Runs) (exact int) {
	p.printf("Figures of the article's text, compared at the digits that it prints\n\n")
	p.table(func(row func(string, ...any)) {
		row("figure\tarticle\tours\t")
		for _, f := range Figures() {
			ours, ok := f.Compare(r)
			verdict := "EXACT"
			if ok {
				exact++
			} else {
				verdict = fmt.Sprintf("differs by %+.4f", f.Difference(r))
			}
			row("%s\t%s\t%s\t%s", f.Name, f.Article, ours, verdict)
		}
	})
	return exact
}

func (p *printer) tables(r *Runs) {
	confirmed := confirms()
	p.printf("\nAll means over seeds %d to %d with 95 %% intervals (* = printed in the article's text)\n\n", FirstSeed, FirstSeed+Seeds-1)
	p.table(func(row func(string, ...any)) {
		line := "config\tlambda 1/u\tp\tf\tpolicy"
		for _, m := range Metrics() {
			line += "\t" + m.Name
		}
		row("%s", line)
		for _, c := range Configs() {
			for _, policy := range Policies() {
				line := fmt.Sprintf("%s\t%.2f\t%.2f\t%.2f\t%s", c.Name, c.Lambda, c.P, c.F, policy)
				for _, m := range Metrics() {
					mark := ""
					if confirmed[c.Name+policy.String()+m.Name] {
						mark = "*"
					}
					mean := r.Mean(c.Name, policy, m)
					line += fmt.Sprintf("\t%.2f%s ±%.2f", mean.Value, mark, mean.Half)
				}
				row("%s", line)
			}
		}
	})
}

func (p *printer) differences(r *Runs) {
	p.printf("\nPaired difference of L, FIFO_DEDUP less FIFO, mean and 95 %% interval in u\n\n")
	p.table(func(row func(string, ...any)) {
		row("config\tmean\tlow\thigh")
		for _, c := range Configs() {
			d := r.LatencyDifference(c.Name)
			row("%s\t%.2f\t%.2f\t%.2f", c.Name, d.Value, d.Value-d.Half, d.Value+d.Half)
		}
	})
}
