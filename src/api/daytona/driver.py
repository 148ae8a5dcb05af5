# Runs the code that comes on standard input as __main__, with sys.argv[1:] as its arguments.
# plt.show() prints each open figure as one artifact line, which the daemon takes out again.
import os
import sys

os.environ.setdefault('MPLBACKEND', 'Agg')


def _nums(values):
    found = []
    for v in values:
        try:
            f = float(v)
        except (TypeError, ValueError):
            continue
        if f - f == 0:
            found.append(f)
    return found


def _points(xs, ys):
    return [p for p in (_nums(pair) for pair in zip(xs, ys)) if len(p) == 2]


def _label(artist):
    text = str(artist.get_label())
    return '' if text.startswith('_') else text


def _bars(ax):
    elements = []
    for group in ax.containers:
        if type(group).__name__ != 'BarContainer':
            continue
        flat = getattr(group, 'orientation', 'vertical') == 'horizontal'
        ticks = [t.get_text() for t in (ax.get_yticklabels() if flat else ax.get_xticklabels())]
        for i, bar in enumerate(group.patches):
            middle = bar.get_y() + bar.get_height() / 2
            if not flat:
                middle = bar.get_x() + bar.get_width() / 2
            named = len(ticks) == len(group.patches) and ticks[i]
            value = bar.get_width() if flat else bar.get_height()
            elements.append({'label': ticks[i] if named else format(middle, 'g'),
                             'value': format(float(value), 'g'), 'group': _label(group)})
    return elements


def _pie(ax):
    wedges = [p for p in ax.patches if type(p).__name__ == 'Wedge']
    return [{'label': _label(w), 'angle': float(w.theta2 - w.theta1), 'radius': float(w.r)}
            for w in wedges]


def _boxes(ax):
    elements = []
    for s in getattr(ax, '_caisson_boxes', ()):
        elements.append({'label': str(s.get('label', '')), 'min': float(s['whislo']),
                         'first_quartile': float(s['q1']), 'median': float(s['med']),
                         'third_quartile': float(s['q3']), 'max': float(s['whishi']),
                         'outliers': _nums(s.get('fliers', ()))})
    return elements


def _scatter(ax):
    # Contours are of the same class, but have no places of their own.
    sets = [c for c in ax.collections if type(c).__name__ == 'PathCollection'
            and c.get_offset_transform().contains_branch(ax.transData)]
    return [{'label': _label(c), 'points': _points(*zip(*c.get_offsets().tolist()))}
            for c in sets if len(c.get_offsets())]


def _lines(ax):
    return [{'label': _label(line), 'points': _points(line.get_xdata(False), line.get_ydata(False))}
            for line in ax.lines]


def _chart(ax):
    kinds = (('box_and_whisker', _boxes), ('pie', _pie), ('bar', _bars), ('scatter', _scatter),
             ('line', _lines))
    chart = {'type': 'unknown', 'title': ax.get_title(), 'elements': []}
    for name, find in kinds:
        elements = find(ax)
        if elements:
            chart.update(type=name, elements=elements)
            break
    if chart['type'] == 'pie':
        return chart
    for axis in 'xy':
        get = {k: getattr(ax, 'get_' + axis + k) for k in ('label', 'ticks', 'ticklabels', 'scale')}
        chart[axis + '_label'] = get['label']()
        chart[axis + '_ticks'] = _nums(get['ticks']())
        chart[axis + '_tick_labels'] = [t.get_text() for t in get['ticklabels']()]
        chart[axis + '_scale'] = get['scale']()
    return chart


def _show(plt):
    import base64
    import io
    import json
    for num in plt.get_fignums():
        fig = plt.figure(num)
        picture = io.BytesIO()
        fig.savefig(picture, format='png')
        # A colour bar has axes of its own, but is part of the chart beside it.
        charts = [_chart(ax) for ax in fig.axes if ax.get_label() != '<colorbar>']
        title = fig._suptitle.get_text() if fig._suptitle else ''
        chart = charts[0] if len(charts) == 1 else {
            'type': 'composite_chart' if charts else 'unknown', 'title': title, 'elements': charts}
        chart['png'] = base64.b64encode(picture.getvalue()).decode()
        line = json.dumps({'type': 'chart', 'value': chart})
        sys.stdout.write('dtn_artifact_k39fd2:' + line + '\n')
        sys.stdout.flush()
    plt.close('all')


class _Finder:
    # Waits for the first import of pyplot, so that programs without charts pay nothing.
    def find_spec(self, name, path=None, target=None):
        if name != 'matplotlib.pyplot':
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec
        spec = find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.show = lambda *a, **k: _show(module)
            from matplotlib.axes import Axes
            draw = Axes.bxp

            def bxp(self, bxpstats, *a, **k):
                self._caisson_boxes = getattr(self, '_caisson_boxes', []) + list(bxpstats)
                return draw(self, bxpstats, *a, **k)
            Axes.bxp = bxp
        spec.loader.exec_module = exec_module
        return spec


def _main():
    name = '<code>'
    code = sys.stdin.buffer.read().decode('utf-8', 'replace')
    sys.argv[0] = name
    sys.meta_path.insert(0, _Finder())
    try:
        program = compile(code, name, 'exec', dont_inherit=True)
        # A module of its own: this file's names are neither seen nor harmed by the program.
        module = type(sys)('__main__')
        module._caisson_driver = sys.modules['__main__']
        sys.modules['__main__'] = module
        exec(program, module.__dict__)
    except SystemExit:
        raise
    except BaseException as e:
        import linecache
        import traceback
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        sys.stdout.flush()
        shown = e.__traceback__.tb_next if e.__traceback__ else None
        traceback.print_exception(type(e), e, shown)
        sys.exit(130 if isinstance(e, KeyboardInterrupt) else 1)


_main()
