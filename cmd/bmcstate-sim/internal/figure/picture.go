package figure

import (
	"fmt"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Picture is a grid of plots, with a legend of its own at the right of the last
// one where the plots leave no room for it.
type Picture struct {
	width, height vg.Length
	rows          [][]*plot.Plot
	legend        *plot.Legend
}

// legendWidth is what a legend beside the plots takes.
const legendWidth = 4.6 * vg.Centimeter

func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	setFont(&p.Title.TextStyle, 12)
	p.Title.Padding = vg.Points(6)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		setFont(&axis.Label.TextStyle, 11)
		setFont(&axis.Tick.Label, 10)
		axis.Label.Padding = vg.Points(4)
	}
	setLegend(&p.Legend)
	p.Legend.XOffs = vg.Points(8)
	return p
}

func setFont(s *text.Style, points float64) {
	s.Font.Variant, s.Font.Size = "Sans", vg.Points(points)
}

func setLegend(l *plot.Legend) {
	setFont(&l.TextStyle, 10)
	l.ThumbnailWidth = vg.Points(28)
	l.Padding = vg.Points(3)
}

// WriteSVG writes the picture as SVG.
func (p *Picture) WriteSVG(w io.Writer) error {
	c := vgsvg.New(p.width, p.height)
	p.draw(draw.New(c))
	return write(w, c)
}

// pngDPI makes a picture that is sharp on a screen of double density.
const pngDPI = 144

// WritePNG writes the picture as PNG.
func (p *Picture) WritePNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(pngDPI))
	p.draw(draw.New(c))
	return write(w, vgimg.PngCanvas{Canvas: c})
}

func write(w io.Writer, c io.WriterTo) error {
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

func (p *Picture) draw(c draw.Canvas) {
	tiles := draw.Tiles{
		Rows: len(p.rows), Cols: len(p.rows[0]),
		PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(14),
		PadX: vg.Points(18), PadY: vg.Points(10),
	}
	if p.legend != nil {
		c.Max.X -= legendWidth
	}
	canvases := plot.Align(p.rows, tiles, c)
	if p.legend != nil {
		last := canvases[len(canvases)-1][0]
		last.Min.X = c.Max.X
		p.legend.Draw(last)
	}
	for i, row := range p.rows {
		for j, plt := range row {
			plt.Draw(canvases[i][j])
		}
	}
}
