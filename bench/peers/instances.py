#!/usr/bin/env python3
"""Writes the benchmark instances: graphs in METIS format, DAGs as .dag. Nothing is downloaded; the same name is the same file.

    instances.py list                       names, sizes, what they stand for
    instances.py write OUT NAME...          NAME may be a family (grid2d), a size (small, medium, large), dag, or all

Most families come from `gen.cpp`, which this script compiles with g++ on first use (into OUT); the Delaunay
and finite-element families are made here, with scipy.
"""
import os, subprocess, sys
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GEN = os.path.join(HERE, 'gen.cpp')

# name: (size class, generator, what it stands for). A string is a command of gen; a tuple is a function below.
GRAPHS = {
    'grid2d_10k':   ('small',  'grid2d 100 100', 'five-point grid; straight cuts k=2: 100, k=4: 200, k=8: 400; 383 is known for k=8 within 3 %'),
    'grid2d_100k':  ('medium', 'grid2d 316 316', ''),
    'grid2d_1M':    ('large',  'grid2d 1000 1000', 'straight cuts k=2: 1000, k=8: 4000, k=32: 10 000, k=64: 14 000'),
    'mesh2d_1M':    ('large',  'mesh2d 1000 1000', 'triangulated grid'),
    'grid3d_27k':   ('small',  'grid3d 30 30 30', 'seven-point grid'),
    'grid3d_1M':    ('large',  'grid3d 100 100 100', 'straight cuts k=2: 10 000, k=8: 30 000, k=64: 90 000'),
    'mesh3d_13k':   ('small',  'mesh3d 24 24 24', '27-point stencil'),
    'mesh3d_216k':  ('medium', 'mesh3d 60 60 60', ''),
    'fem2d_10k':    ('small',  ('fem', 2, 10_000, 1), 'Delaunay mesh of points crowded at two places, as adaptive meshes are'),
    'fem2d_100k':   ('medium', ('fem', 2, 100_000, 1), ''),
    'fem3d_65k':    ('medium', ('fem', 3, 65_536, 1), 'tetrahedra, the same in space'),
    'del2d_10k':    ('small',  ('delaunay', 2, 10_000, 1), 'Delaunay triangulation of random points'),
    'del2d_18':     ('medium', ('delaunay', 2, 262_144, 1), ''),
    'del2d_20':     ('large',  ('delaunay', 2, 1_048_576, 1), ''),
    'rgg2d_14':     ('small',  'rgg2d 16384 1', 'random geometric'),
    'rgg2d_18':     ('medium', 'rgg2d 262144 1', ''),
    'rgg2d_20':     ('large',  'rgg2d 1048576 1', ''),
    'rgg3d_18':     ('medium', 'rgg3d 262144 1 14', ''),
    'road_10k':     ('small',  'road 10000 1', 'road-like: sparse, chains of degree 2, nearly planar'),
    'road_1M':      ('large',  'road 1000000 1', ''),
    'rhyp_14':      ('small',  'rhyp 16384 12 1', 'hyperbolic-like: power law with locality'),
    'rhyp_18':      ('medium', 'rhyp 262144 12 1', ''),
    'rhyp_20':      ('large',  'rhyp 1048576 12 1', ''),
    'ba_14':        ('small',  'ba 16384 5 1', 'Barabasi-Albert: power law without locality'),
    'ba_18':        ('medium', 'ba 262144 5 1', ''),
    'rmat_13':      ('small',  'rmat 13 16 1', 'R-MAT (Kronecker): skewed degrees, isolated nodes'),
    'rmat_16':      ('medium', 'rmat 16 16 1', ''),
    'rmat_18':      ('medium', 'rmat 18 8 1', ''),
    'rmat_20':      ('large',  'rmat 20 8 1', ''),
    'sbm_14':       ('small',  'sbm 16384 16 10 2 1', 'planted blocks: the planted cut is known to be good'),
    'sbm_18':       ('medium', 'sbm 262144 64 10 2 1', 'k=64: the planted cut, about 258 000'),
}

DAGS = {
    'tfm_L24_H1':        ('small',  'transformer 24 1 1', 'unrolled transformer, an operator a node'),
    'tfm_L64_H16':       ('small',  'transformer 64 16 1', ''),
    'tfm_train_L32_H16': ('small',  'TRAIN=1 transformer 32 16 1', 'the same with its mirrored backward pass'),
    'tfm_L512_H64':      ('medium', 'transformer 512 64 1', ''),
    'tfm_1M':            ('large',  'transformer 2500 40 1', ''),
    'resnet_b50':        ('small',  'resnet 50 1', 'residual chain'),
    'resnet_10k':        ('small',  'resnet 1200 1', ''),
    'inception_3k':      ('small',  'inception 100 1', 'parallel branches'),
    'inception_30k':     ('medium', 'inception 1000 1', ''),
    'unet_6x4':          ('small',  'unet 6 4 1', 'long skip connections: order alone cannot hide the traffic'),
    'unet_6x200':        ('medium', 'unet 6 200 1', ''),
    'moe_32x64':         ('small',  'moe 32 64 1', 'wide: 64 experts side by side'),
    'layered_10k':       ('small',  'layered 10000 32 3 1', 'random layered DAG, log-normal weights'),
    'layered_100k':      ('medium', 'layered 100000 64 3 1', ''),
    'layered_1M':        ('large',  'layered 1000000 256 3 1', ''),
}


def edges_of_triangulation(points):
    from scipy.spatial import Delaunay
    simplices = Delaunay(points).simplices
    d = simplices.shape[1]
    pairs = np.concatenate([simplices[:, [i, j]] for i in range(d) for j in range(i + 1, d)])
    pairs.sort(axis=1)
    return np.unique(pairs, axis=0)

def sorted_along_a_curve(points):
    """Ids follow a Z-order curve, as those of a mesh file follow its generator; random ids would measure the cache alone."""
    cells = ((points - points.min(0)) / np.ptp(points, axis=0) * 1023).astype(np.int64)
    key = np.zeros(len(points), np.int64)
    for bit in range(10):
        for axis in range(points.shape[1]):
            key |= (cells[:, axis] >> bit & 1) << (bit * points.shape[1] + axis)
    return points[np.argsort(key, kind='stable')]

def delaunay(dimension, n, seed):
    return n, edges_of_triangulation(sorted_along_a_curve(np.random.default_rng(seed).random((n, dimension))))

def fem(dimension, n, seed):
    random = np.random.default_rng(seed)
    uniform = random.random((n // 2, dimension))
    crowded = [np.full(dimension, c) + random.normal(size=(m, dimension)) * random.random((m, 1)) ** 3 * 0.4
               for c, m in ((0.3, (n - n // 2) // 2), (0.7, n - n // 2 - (n - n // 2) // 2))]
    return n, edges_of_triangulation(sorted_along_a_curve(np.concatenate((uniform, *crowded))))

def write_metis(path, n, edges):
    both = np.concatenate((edges, edges[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    ends = np.cumsum(np.bincount(both[:, 0], minlength=n))
    words = list(map(str, (both[:, 1] + 1).tolist()))
    with open(path, 'w') as out:
        out.write(f'{n} {len(edges)}\n')
        begin = 0
        for end in ends.tolist():
            out.write(' '.join(words[begin:end]) + '\n')
            begin = end

def generator(folder):
    program = os.path.join(folder, 'gen')
    if not os.path.exists(program):
        subprocess.run(['g++', '-O2', '-std=c++20', GEN, '-o', program], check=True)
    return program

def write(folder, name):
    recipe = (GRAPHS.get(name) or DAGS[name])[1]
    path = os.path.join(folder, name + ('.graph' if name in GRAPHS else '.dag'))
    if os.path.exists(path):
        return
    if isinstance(recipe, str):
        words = recipe.split()
        settings = dict(w.split('=') for w in words if '=' in w)
        subprocess.run([generator(folder), *[w for w in words if '=' not in w], path], check=True, env=os.environ | settings)
    else:
        write_metis(path, *globals()[recipe[0]](*recipe[1:]))
        print(path, file=sys.stderr)

def main():
    every = GRAPHS | DAGS
    if len(sys.argv) >= 4 and sys.argv[1] == 'write':
        folder = sys.argv[2]
        os.makedirs(folder, exist_ok=True)
        for word in sys.argv[3:]:
            chosen = [name for name, (size, _, _) in every.items()
                      if word in (name, size, name.split('_')[0], 'dag' if name in DAGS else 'graph', 'all')]
            if not chosen:
                sys.exit(f'no instance is called {word}; see: instances.py list')
            for name in chosen:
                write(folder, name)
    elif sys.argv[1:] == ['list']:
        for name, (size, recipe, what) in every.items():
            print(f'{name:18} {size:7} {recipe if isinstance(recipe, str) else " ".join(map(str, recipe)):30} {what}')
    else:
        sys.exit(__doc__)

main()
