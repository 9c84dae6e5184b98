// Package figure draws the simulator's pictures, each as SVG and PNG.
package figure

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/paper"
	"github.com/bmcstate/bmcstate/state"
)

// style tells the policies apart by colour, mark and dashes, so that the
// picture can be read without colours.
type style struct {
	color  color.Color
	glyph  draw.GlyphDrawer
	dashes []vg.Length
}

var styles = map[state.Policy]style{
	state.Check:     {color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, draw.CrossGlyph{}, []vg.Length{2, 3}},
	state.Dedup:     {color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, draw.TriangleGlyph{}, []vg.Length{8, 3, 2, 3}},
	state.FIFO:      {color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, draw.SquareGlyph{}, []vg.Length{6, 3}},
	state.FIFODedup: {color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, draw.CircleGlyph{}, nil},
}

// Sweep draws the paper's figure: latency and share of successful requests over
// lambda, with intervals.
func Sweep(r *paper.Runs, configs []paper.Config) (*Picture, error) {
	latency := newPlot("Latency L: mean time from arrival to first success")
	share := newPlot("Share S of requests that succeed")
	// A long label at a logarithmic axis would push the axis down.
	latency.Y.Label.Text, share.Y.Label.Text = "L (u, log)", "S (% of requests)"
	latency.Y.Scale, latency.Y.Tick.Marker = plot.LogScale{}, ticks(3, 5, 10, 20, 50, 100, 200)
	latency.Y.Min, latency.Y.Max = 3, 220
	share.Y.Min, share.Y.Max = 30, 90
	share.Y.Tick.Marker = ticks(30, 40, 50, 60, 70, 80, 90)
	for _, p := range []*plot.Plot{latency, share} {
		p.X.Label.Text = "λ, requests per u (log scale)"
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticks(0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
		p.X.Min, p.X.Max = 0.009, 0.45
		p.Add(plotter.NewGrid())
	}
	latency.Legend.Top, latency.Legend.Left = true, true
	latency.Legend.YOffs = vg.Points(-6)
	share.Legend.Left = true
	share.Legend.YOffs = vg.Points(8)
	for _, policy := range paper.Policies() {
		if err := curve(latency, r, configs, policy, paper.L); err != nil {
			return nil, err
		}
		if err := curve(share, r, configs, policy, paper.S); err != nil {
			return nil, err
		}
	}
	return &Picture{width: 26 * vg.Centimeter, height: 11 * vg.Centimeter, rows: [][]*plot.Plot{{latency, share}}}, nil
}

// points are the means over lambda with their intervals.
type points struct {
	plotter.XYs
	plotter.YErrors
}

func curve(p *plot.Plot, r *paper.Runs, configs []paper.Config, policy state.Policy, m paper.Metric) error {
	var pts points
	for _, c := range configs {
		mean := r.Mean(c.Name, policy, m)
		pts.XYs = append(pts.XYs, plotter.XY{X: c.Lambda, Y: mean.Value})
		pts.YErrors = append(pts.YErrors, struct{ Low, High float64 }{mean.Half, mean.Half})
	}
	line, marks, err := plotter.NewLinePoints(pts.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(pts)
	if err != nil {
		return err
	}
	s := styles[policy]
	line.Color, line.Width, line.Dashes = s.color, vg.Points(1.5), s.dashes
	marks.Color, marks.Shape, marks.Radius = s.color, s.glyph, vg.Points(3.5)
	bars.Color, bars.Width, bars.CapWidth = s.color, vg.Points(1), vg.Points(7)
	p.Add(bars, line, marks)
	p.Legend.Add(policy.String(), line, marks)
	return nil
}

// ticks marks the given values.
func ticks(values ...float64) plot.ConstantTicks {
	var out plot.ConstantTicks
	for _, v := range values {
		out = append(out, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return out
}
