//! A band of rows of a larger bitmap, drawn with the coordinates of the whole. Shapes are made pixel by pixel in these coordinates, so the
//! bands of a picture hold exactly the pixels of one large bitmap.

use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingErrorKind, rasterizer};

type Error = <BitMapBackend<'static> as DrawingBackend>::ErrorType;
type Result = std::result::Result<(), DrawingErrorKind<Error>>;

/// Rows of a larger bitmap.
pub struct Band<'p> {
    /// The rows.
    pub pixels: BitMapBackend<'p>,
    /// Index of the first row in the whole bitmap.
    pub top: i32,
    /// Width and height of the whole.
    pub size: (u32, u32),
}

impl Band<'_> {
    fn in_band(&self, (x, y): BackendCoord) -> BackendCoord {
        (x, y - self.top)
    }
}

impl DrawingBackend for Band<'_> {
    type ErrorType = Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result {
        self.pixels.ensure_prepared()
    }

    fn present(&mut self) -> Result {
        self.pixels.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Result {
        self.pixels.draw_pixel(self.in_band(at), colour)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Result {
        // Upright and level lines look the same at any position, so the bitmap draws them itself.
        if (from.0 == to.0 || from.1 == to.1) && style.stroke_width() == 1 {
            return self.pixels.draw_line(self.in_band(from), self.in_band(to), style);
        }
        rasterizer::draw_line(self, from, to, style)
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, fill: bool) -> Result {
        if fill {
            return self.pixels.draw_rect(self.in_band(from), self.in_band(to), style, fill);
        }
        rasterizer::draw_rect(self, from, to, style, fill)
    }
}
